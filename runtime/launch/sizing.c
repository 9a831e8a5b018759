/* SPDX-License-Identifier: Apache-2.0 */
/* sizing.c - judge the number of managers and the memory that a user asks for. */
#include "sizing.h"

#include <base/size.h>
#include <ddict_types.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

int ask_managers(const char *name, const char *text, uint32_t *managers, char *why, size_t cap) {
    uint64_t n;

    if (!text || count_parse(text, 1, DD_MANAGERS_MAX, &n) < 0) {
        snprintf(why, cap, "%s=%.40s: want a whole number from 1 to %u", name, !text ? "" : text,
                 DD_MANAGERS_MAX);
        return -EINVAL;
    }
    *managers = (uint32_t)n;
    return 0;
}

int ask_mem(const char *name, const char *text, uint64_t *mem, char *why, size_t cap) {
    char least[16];
    uint64_t n;
    int rc = !text ? -EINVAL : size_parse(text, &n);

    if (rc == -ERANGE)
        snprintf(why, cap, "%s=%.40s: more than any machine has", name, text);
    else if (rc < 0)
        snprintf(why, cap,
                 "%s=%.40s: want a size such as 512M or 16G (K, M, G, T are powers of 1024)", name,
                 !text ? "" : text);
    else if (n < DD_MANAGER_MEM_MIN)
        snprintf(why, cap, "%s=%.40s: too small, a manager needs at least %s", name, text,
                 size_format(least, sizeof least, DD_MANAGER_MEM_MIN));
    else {
        *mem = n;
        return 0;
    }
    return -EINVAL;
}

/* "12.5%" -> 1250; 0 or -EINVAL. */
static int share_parse(const char *text, uint32_t *share) {
    const char *end = strchr(text, '%');
    uint64_t whole = 0, part = 0;
    char digits[16], *dot;

    if (!end || end[1] != '\0' ||
        (size_t)snprintf(digits, sizeof digits, "%.*s", (int)(end - text), text) >= sizeof digits)
        return -EINVAL;
    dot = strchr(digits, '.');
    if (dot) {
        *dot++ = '\0';
        if (strlen(dot) > 2 || count_parse(dot, 0, 99, &part) < 0)
            return -EINVAL;
        part *= strlen(dot) == 1 ? 10 : 1;
    }
    if (count_parse(digits, 0, 100, &whole) < 0 || whole * 100 + part < 1 ||
        whole * 100 + part > 10000)
        return -EINVAL;
    *share = (uint32_t)(whole * 100 + part);
    return 0;
}

int ask_amount(const char *name, const char *text, struct amount *amount, char *why, size_t cap) {
    struct amount got = {0};

    if (!text || !strchr(text, '%')) {
        if (ask_mem(name, text, &got.bytes, why, cap) < 0)
            return -EINVAL;
    } else if (share_parse(text, &got.share) < 0) {
        snprintf(why, cap,
                 "%s=%.40s: want a share of the job's memory such as 40%%, more than 0%% and at "
                 "most 100%%",
                 name, text);
        return -EINVAL;
    }
    *amount = got;
    return 0;
}

int ask_spill(const char *name, const char *text, size_t *dir_len, uint64_t *bytes, char *why,
              size_t cap) {
    const char *colon = strrchr(text, ':');

    *dir_len = 0;
    *bytes = 0;
    if (strcmp(text, "none") == 0)
        return 0;
    if (*text != '/' || strpbrk(text, "\n\r") || strlen(text) >= SPILL_TEXT) {
        snprintf(why, cap,
                 "%s=%.60s: want a folder of the nodes, with its absolute path, and perhaps a "
                 "size: /scratch:500G; or none",
                 name, text);
        return -EINVAL;
    }
    *dir_len = colon ? (size_t)(colon - text) : strlen(text);
    return colon ? ask_mem(name, colon + 1, bytes, why, cap) : 0;
}

/* "1" or "0,2" of het:, up to its end or a colon; 0 or -EINVAL. */
static int groups_parse(const char *text, size_t n, struct key_nodes *nodes) {
    char copy[DD_COMPONENTS_MAX * 4], *word, *rest;
    uint64_t group;

    if (n == 0 || n >= sizeof copy || text[0] == ',' || text[n - 1] == ',')
        return -EINVAL;
    memcpy(copy, text, n);
    copy[n] = '\0';
    for (word = strtok_r(copy, ",", &rest); word; word = strtok_r(NULL, ",", &rest)) {
        if (nodes->groups == DD_COMPONENTS_MAX ||
            count_parse(word, 0, DD_COMPONENTS_MAX - 1, &group) < 0)
            return -EINVAL;
        nodes->group[nodes->groups++] = (int)group;
    }
    return 0;
}

int ask_key_nodes(const char *name, const char *text, struct key_nodes *nodes, char *why,
                  size_t cap) {
    struct key_nodes got = {0};
    int het = strncmp(text, "het:", 4) == 0, rc;
    const char *of = het ? text + 4 : text, *colon = strchr(of, ':');
    size_t n = colon ? (size_t)(colon - of) : strlen(of);
    char digits[16];
    uint64_t first = 0;

    if (het)
        rc = groups_parse(of, n, &got);
    else
        rc = n >= sizeof digits || snprintf(digits, sizeof digits, "%.*s", (int)n, of) < 0
                 ? -EINVAL
                 : count_parse(digits, 1, DD_MANAGERS_MAX, &first);
    if (rc < 0) {
        snprintf(why, cap,
                 "%s=%.60s: want the number of nodes with keys, or het:1 for those of the "
                 "component of --het-group=1, and perhaps the memory of each other node: het:1:4G",
                 name, text);
        return -EINVAL;
    }
    got.first = (uint32_t)first;
    if (colon && ask_mem(name, colon + 1, &got.forward_mem, why, cap) < 0)
        return -EINVAL;
    *nodes = got;
    return 0;
}

/* One of the words behind K; 0: none of them. */
static unsigned working_flag(const char *word, size_t n) {
    static const struct {
        const char *word;
        unsigned flag;
    } known[] = {{"wait-for-keys", DDICT_WAIT_FOR_KEYS},
                 {"wait-for-writers", DDICT_WAIT_FOR_WRITERS}};

    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strlen(known[i].word) == n && strncmp(known[i].word, word, n) == 0)
            return known[i].flag;
    return 0;
}

/* 0 or -EINVAL. */
static int working_set_parse(const char *text, struct working_set *working) {
    size_t n = strcspn(text, ",");
    char digits[8];
    uint64_t size;

    if ((size_t)snprintf(digits, sizeof digits, "%.*s", (int)(n < 8 ? n : 8), text) >=
            sizeof digits ||
        count_parse(digits, 1, DD_WORKING_SET_MAX, &size) < 0)
        return -EINVAL;
    working->size = (uint32_t)size;
    for (text += n; *text != '\0'; text += n) {
        unsigned flag;

        n = strcspn(++text, ",");
        flag = working_flag(text, n);
        if (flag == 0)
            return -EINVAL;
        working->flags |= flag;
    }
    return 0;
}

int ask_working_set(const char *name, const char *text, struct working_set *working, char *why,
                    size_t cap) {
    struct working_set got = {0};

    if (working_set_parse(text, &got) < 0) {
        snprintf(why, cap,
                 "%s=%.60s: want the number of checkpoints that are kept, from 1 to %u, and "
                 "perhaps what a new one waits for: 3,wait-for-keys,wait-for-writers",
                 name, text, DD_WORKING_SET_MAX);
        return -EINVAL;
    }
    if (got.flags != 0 && got.size < 2) {
        snprintf(why, cap,
                 "%s=%.60s: a checkpoint that waits for the one before needs at least 2 that are "
                 "kept",
                 name, text);
        return -EINVAL;
    }
    *working = got;
    return 0;
}

uint64_t amount_bytes(const struct amount *amount, uint64_t whole) {
    return amount->share == 0 ? amount->bytes
                              : (uint64_t)((unsigned __int128)whole * amount->share / 10000);
}

const char *amount_format(char *buf, size_t cap, const struct amount *amount) {
    if (amount->share == 0)
        return size_format(buf, cap, amount->bytes);
    if (amount->share % 100 == 0)
        snprintf(buf, cap, "%u%%", amount->share / 100);
    else
        snprintf(buf, cap, "%u.%0*u%%", amount->share / 100, amount->share % 10 == 0 ? 1 : 2,
                 amount->share % 10 == 0 ? amount->share % 100 / 10 : amount->share % 100);
    return buf;
}

int ask_fits(const char *mem_name, uint64_t mem, const char *managers_name, uint32_t managers,
             uint32_t nodes, char *why, size_t cap) {
    uint32_t on_node = (managers + nodes - 1) / nodes;
    char have[16], least[16], all[16];

    if (mem / managers < DD_MANAGER_MEM_MIN) {
        uint64_t need = managers * DD_MANAGER_MEM_MIN;

        snprintf(why, cap,
                 "%s is %s for each of %u managers; each needs at least %s: ask for %s=%" PRIu64
                 "M (%s) or fewer managers",
                 mem_name, size_format(have, sizeof have, mem / managers), managers,
                 size_format(least, sizeof least, DD_MANAGER_MEM_MIN), mem_name, need >> 20,
                 size_format(all, sizeof all, need));
        return -EINVAL;
    }
    if (on_node > DD_LOCAL_MANAGERS_MAX) {
        snprintf(why, cap, "%s=%u: %u on a node; at most %u there, so at most %u on %u node%s",
                 managers_name, managers, on_node, DD_LOCAL_MANAGERS_MAX,
                 nodes * DD_LOCAL_MANAGERS_MAX, nodes, nodes == 1 ? "" : "s");
        return -EINVAL;
    }
    return 0;
}

static uint64_t owners_share(uint64_t mem, uint32_t managers, uint32_t nodes, uint32_t node_id) {
    if (node_id >= managers)
        return 0;
    return mem / managers * ((managers - node_id + nodes - 1) / nodes);
}

uint64_t ask_share(uint64_t mem, uint32_t managers, uint32_t nodes, uint32_t node_id,
                   unsigned copies) {
    uint32_t before = (node_id + nodes - 1) % nodes; /* has its shadows here */

    return owners_share(mem, managers, nodes, node_id) +
           (copies > 1 ? owners_share(mem, managers, nodes, before) : 0);
}

const char *copies_text(unsigned copies) {
    return copies > 1 ? ", in two copies," : "";
}

int ask_room(const char *mem_name, uint64_t mem, unsigned copies, uint64_t share, const char *node,
             uint64_t job_mb, int per_cpu, char *why, size_t cap) {
    char all[16], part[16], have[16];
    uint64_t want;

    if (job_mb == 0 || job_mb >= UINT64_MAX >> 20 || share <= job_mb << 20)
        return 0;
    want = (share + (job_mb << 20) + (1ull << 30) - 1) >> 30;
    snprintf(
        why, cap,
        "%s of %s%s is %s on node %s, where the job has %s; ask for less, or give the job more "
        "with --mem=%" PRIu64 "G%s",
        mem_name, size_format(all, sizeof all, mem), copies_text(copies),
        size_format(part, sizeof part, share), node, size_format(have, sizeof have, job_mb << 20),
        want, per_cpu ? " (instead of --mem-per-cpu)" : "");
    return -EINVAL;
}
