/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wireup.c - which node of the dictionary is this one, and what are the addresses of the others:
 * through PMIx, through the process that started us (stdio), or not at all (one node). PMIx is
 * ended before the managers are forked, so that they are forked from a process of one thread.
 */
#include "wireup.h"

#include "gather.h"
#include "node_info.h"
#include "owner_map.h"
#include "signals.h"
#include "startup_output.h"
#include "supervisor.h"
#include "transport.h"
#include <base/error.h>
#include <base/log.h>
#include <base/shadow.h>
#include <launch/option_table.h>
#include <place/place.h>
#include <wire/auth.h>

#include <dirent.h>
#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct place place;

static int deal_find(struct supervisor *s) {
    uint32_t keyed = s->opt.keyed_nodes ? s->opt.keyed_nodes : s->nodes;
    if (keyed > s->nodes)
        return dd_error(-EINVAL, "keys on %u nodes: there are %u", keyed, s->nodes);
    /* each node with keys has an owner at least */
    s->deal = (struct deal){.owners = s->opt.managers > keyed ? s->opt.managers : keyed,
                            .nodes = s->nodes,
                            .keyed = keyed};
    s->managers = deal_managers(&s->deal);
    if (s->managers > DD_MANAGERS_MAX)
        return dd_error(-EINVAL, "%u managers with keys on %u of %u nodes make %u: at most %u",
                        s->deal.owners, keyed, s->nodes, s->managers, DD_MANAGERS_MAX);
    if (has_copies(s) && keyed < 2)
        return dd_error(-EINVAL, "%s=%u needs two nodes with keys: there is one",
                        option_rows[OPT_REPLICAS].name, s->opt.replicas);
    if (s->opt.refill && keyed < 2)
        return dd_error(-EINVAL, "%s needs two nodes with keys: there is one",
                        option_rows[OPT_REFILL].option);
    return 0;
}

/* Managers, and shadows of the start. */
static uint32_t slots(const struct supervisor *s) {
    return has_copies(s) ? 2 * s->managers : s->managers;
}

int wireup_place(struct supervisor *s) {
    int e = 0;
    if (sodium_init() < 0)
        return dd_error(-EIO, "libsodium can not start");
    s->nodes = s->opt.nodes;
    s->node_id = s->opt.node_id;
    if (s->opt.wireup == WIREUP_PMIX) {
        e = place_init(&place, 1);
        if (e < 0)
            return e;
        s->nodes = (uint32_t)place.size;
        s->node_id = (uint32_t)place.rank;
    }
    if ((e = deal_find(s)) < 0)
        return e;
    if (survives_nodes(s) && (e = owner_map_init(s)) < 0)
        return e;
    s->node_names = calloc(s->nodes, NODE_NAME_MAX);
    if (s->nodes > 1)
        s->peers = calloc(slots(s), sizeof *s->peers);
    if (s->nodes > 1)
        s->control_at = calloc(s->nodes, sizeof *s->control_at);
    if (s->nodes > 1)
        s->keys = calloc(s->nodes, sizeof *s->keys);
    if (!s->node_names || (s->nodes > 1 && (!s->peers || !s->control_at || !s->keys)))
        return dd_error(-ENOMEM, "no memory for %u nodes", s->nodes);
    auth_pair(s->secret_key, s->public_key);
    if (s->opt.has_id)
        memcpy(s->identity.dict_id, s->opt.dict_id, sizeof s->identity.dict_id);
    else
        randombytes_buf(s->identity.dict_id, sizeof s->identity.dict_id);
    return 0;
}

/* --- stdio: base64 over the starter --- */
static char *node_info_text(const void *info, size_t len) {
    size_t cap = sodium_base64_ENCODED_LEN(len, sodium_base64_VARIANT_ORIGINAL);
    char *text = malloc(cap);
    if (text)
        sodium_bin2base64(text, cap, info, len, sodium_base64_VARIANT_ORIGINAL);
    return text;
}

static bool bytes_parse(char **save, uint8_t *bytes, size_t len) {
    const char *word = strtok_r(NULL, " \r", save);
    size_t n;
    return word &&
           sodium_base642bin(bytes, len, word, strlen(word), NULL, &n, NULL,
                             sodium_base64_VARIANT_ORIGINAL) == 0 &&
           n == len;
}

/* "gather DIGEST SECRET <node info of node 0>" */
static int gather_parse(char *line, struct gather_word *word, const char **first) {
    char *save = NULL;
    const char *head = strtok_r(line, " \r", &save);
    if (!head || strcmp(head, "gather") != 0)
        return dd_error(DDICT_EPROTO, "stdin: a line `gather` was expected: are ddict and ddictd "
                                      "of the same version?");
    if (!bytes_parse(&save, word->digest, sizeof word->digest) ||
        !bytes_parse(&save, word->secret, sizeof word->secret) ||
        !(*first = strtok_r(NULL, " \r", &save)))
        return dd_error(DDICT_EPROTO, "stdin: the line `gather` is malformed");
    return 0;
}

static int node_infos_parse(struct supervisor *s, char *set, void **infos, size_t *lens) {
    char *save = NULL;
    for (uint32_t i = 0; i < s->nodes; i++) {
        const char *word = strtok_r(i == 0 ? set : NULL, " ", &save);
        int e = word ? node_info_decode(word, strlen(word), &infos[i], &lens[i]) : DDICT_EPROTO;
        if (e < 0)
            return dd_error(e, "the node info of node %u of %u is malformed", i, s->nodes);
    }
    return 0;
}

/* Where the node info of node 0 says that the start ends here, no other is needed. */
static bool first_suffices(struct supervisor *s, void **infos, size_t *lens, int *e) {
    char error[256], name[NODE_NAME_MAX];
    struct node_address where;
    *e = node_info_check(infos[0], lens[0], 0);
    if (*e < 0 || node_info_says_exists(infos[0], lens[0]))
        return true;
    if (!node_info_error(infos[0], error, sizeof error))
        return false;
    node_info_where(infos[0], name, &where);
    *e = dd_error(-ECANCELED, "node %s: %s", name, error);
    return true;
}

static int line_follow(struct supervisor *s, char *line, const char *mine, void **infos,
                       size_t *lens) {
    struct gather_word word;
    const char *first;
    char *set;
    int e = gather_parse(line, &word, &first);
    if (e == 0)
        e = node_info_decode(first, strlen(first), &infos[0], &lens[0]);
    if (e == 0 && !first_suffices(s, infos, lens, &e) &&
        (e = node_infos_gather(s, &word, mine, first, &set)) == 0) {
        free(infos[0]);
        infos[0] = NULL;
        e = node_infos_parse(s, set, infos, lens);
        free(set);
    }
    sodium_memzero(&word, sizeof word);
    return e;
}

static int stdio_exchange(struct supervisor *s, const void *info, size_t len, void **infos,
                          size_t *lens) {
    char *line, head[32], *mine = node_info_text(info, len);
    if (!mine)
        return -ENOMEM;
    snprintf(head, sizeof head, "card %u", s->node_id);
    startup_print_text(head, mine);
    int e = stdin_line_read(s, &line, s->opt.fence_ms);
    if (e == 0)
        e = dd_error(-EPIPE, "stdin ended before the node infos of the other nodes came");
    else if (e < 0)
        e = dd_error(e, "no word of the other nodes on stdin within %d s", s->opt.fence_ms / 1000);
    else {
        size_t n = strlen(line); /* line_follow() cuts it into words */
        e = line_follow(s, line, mine, infos, lens);
        sodium_memzero(line, n);
        free(line);
    }
    free(mine);
    return e;
}

/* --- all --- */
static unsigned threads_now(void) {
    DIR *d = opendir("/proc/self/task");
    unsigned n = 0;
    if (!d)
        return 1;
    for (struct dirent *e; (e = readdir(d));)
        n += e->d_name[0] != '.';
    closedir(d);
    return n;
}

/* Replaces each public key, as it came in the node infos, by the secret that only that node and
 * this one share. */
static int node_keys_make(struct supervisor *s) {
    uint8_t key[KEY_SIZE];
    for (uint32_t i = 0; s->keys && i < s->nodes; i++) {
        if (auth_key(key, s->secret_key, s->public_key, s->keys[i], s->identity.dict_id) < 0)
            return dd_error(DDICT_EAUTH, "the node info of node %u has no key", i);
        memcpy(s->keys[i], key, sizeof key);
    }
    auth_forget(key, sizeof key);
    auth_forget(s->secret_key, sizeof s->secret_key);
    s->identity.keys = (const uint8_t(*)[KEY_SIZE])s->keys;
    s->identity.nodes = s->nodes;
    s->identity.wire = s->opt.wire;
    return 0;
}

static int peer_judge(const struct supervisor *s, uint32_t number, const char *what) {
    if (s->peers[shadow_slot(&s->deal, number)].node[0])
        return 0;
    return dd_error(DDICT_EPROTO, "node %u serves fewer %s than it should", number % s->nodes,
                    what);
}

static int node_infos_apply(struct supervisor *s, void **infos, size_t *lens) {
    int e = 0;
    for (uint32_t i = 0; i < s->nodes; i++) {
        if ((e = node_info_check(infos[i], lens[i], i)) < 0)
            return e;
        node_info_apply(s, infos[i]);
        if (s->other.managers)
            return 1; /* no error of another node matters then */
        if ((e = node_info_agrees(s, infos[i])) < 0)
            return e;
    }
    for (uint32_t i = 0; i < s->nodes; i++) {
        char error[256];
        const char *name = s->node_names[i];
        if (!node_info_error(infos[i], error, sizeof error))
            continue;
        return dd_error(-ECANCELED, "node %s: %s", name, error);
    }
    if ((e = node_keys_make(s)) < 0 || (e = transport_agree(s)) < 0)
        return e;
    for (uint32_t m = 0; s->peers && m < s->managers; m++)
        if ((e = peer_judge(s, m, "managers")) < 0 ||
            (has_copies(s) && deal_owns(&s->deal, m) &&
             (e = peer_judge(s, shadow_of(&s->deal, m), "shadows")) < 0))
            return e;
    return 0;
}

int wireup_exchange(struct supervisor *s, const char *error) {
    size_t len;
    struct node_info *info = node_info_make(s, error, &len);
    void **infos = calloc(s->nodes, sizeof *infos);
    size_t *lens = calloc(s->nodes, sizeof *lens);
    int e = -ENOMEM;
    if (info && infos && lens) {
        if (s->opt.wireup == WIREUP_PMIX)
            e = place_exchange_until(&place, info, len, infos, lens, node_info_says_exists,
                                     s->opt.fence_ms);
        else if (s->opt.wireup == WIREUP_STDIO)
            e = stdio_exchange(s, info, len, infos, lens);
        else if ((infos[0] = malloc(len))) {
            memcpy(infos[0], info, len);
            lens[0] = len;
            e = 0;
        }
    }
    if (s->opt.wireup == WIREUP_PMIX)
        place_finalize(&place);
    if (e == 0) {
        e = node_infos_apply(s, infos, lens);
        s->ends_after_wireup = e != 0 && s->opt.wireup == WIREUP_PMIX && s->nodes > 1;
    }
    for (uint32_t i = 0; infos && i < s->nodes; i++)
        free(infos[i]);
    free(infos);
    free(lens);
    if (info)
        sodium_memzero(info, len);
    free(info);
    unsigned threads = threads_now();
    if (threads > 1)
        log_warn("%u threads are left of the wire-up", threads - 1);
    return e;
}
