/* SPDX-License-Identifier: Apache-2.0 */
/* site.c - read the administrator's words: the file ddict.conf and the plugin's line in plugstack.conf. */
#include "launch/site.h"

#include "base/defaults.h"
#include "base/size.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Takes the value at its place in s; 0, or -EINVAL with what is wanted in why. name is the word without '='. */
typedef int (*take_fn)(struct site *s, size_t at, const char *name, const char *value, char *why,
                       size_t cap);

#define PLACE(type, s, at) ((type *)(void *)((char *)(s) + (at)))

static int wrong(const char *name, const char *value, const char *want, char *why, size_t cap) {
    snprintf(why, cap, "%s=%.60s: want %s", name, value, want);
    return -EINVAL;
}

static int take_path(struct site *s, size_t at, const char *name, const char *value, char *why,
                     size_t cap) {
    if (*value != '/' || strlen(value) >= SITE_TEXT)
        return wrong(name, value, "an absolute path", why, cap);
    strcpy(PLACE(char, s, at), value);
    return 0;
}

static int take_folder(struct site *s, size_t at, const char *name, const char *value, char *why,
                       size_t cap) {
    if (strcmp(value, "none") != 0 && (*value != '/' || strlen(value) >= SITE_TEXT))
        return wrong(name, value, "an absolute path, or none", why, cap);
    strcpy(PLACE(char, s, at), value);
    return 0;
}

static int take_mpi(struct site *s, size_t at, const char *name, const char *value, char *why,
                    size_t cap) {
    if (*value == '\0' || strlen(value) >= sizeof s->mpi ||
        strspn(value, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+.") !=
            strlen(value))
        return wrong(name, value, "auto, none, or a type of `srun --mpi=list`", why, cap);
    strcpy(PLACE(char, s, at), value);
    return 0;
}

int site_choice(const char *name, const char *value, const char *want, char *why, size_t cap) {
    size_t n = strlen(value), len;
    const char *at;

    for (at = want; *at != '\0'; at += len, at += strspn(at, ", ")) {
        len = strcspn(at, ", ");
        if (len == n && strncmp(at, value, n) == 0 && strcmp(value, "or") != 0)
            return 0;
    }
    return wrong(name, value, want, why, cap);
}

int site_transport(const char *name, const char *value, char *why, size_t cap) {
    size_t n = strlen(value);

    if (strcmp(value, "auto") == 0 || strcmp(value, "tcp") == 0 || strcmp(value, "ofi") == 0)
        return 0;
    if (strncmp(value, "ofi:", 4) == 0 && n > 4 && n < sizeof((struct site *)0)->transport &&
        strspn(value + 4, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_;-") ==
            n - 4)
        return 0;
    return wrong(name, value, "auto, tcp, ofi or ofi:PROVIDER", why, cap);
}

static int take_transport(struct site *s, size_t at, const char *name, const char *value, char *why,
                          size_t cap) {
    if (site_transport(name, value, why, cap) < 0)
        return -EINVAL;
    snprintf(s->transport, sizeof s->transport, "%s", value);
    return 0;
}

static int take_spill(struct site *s, size_t at, const char *name, const char *value, char *why,
                      size_t cap) {
    size_t len;
    uint64_t bytes;

    if (ask_spill(name, value, &len, &bytes, why, cap) < 0)
        return -EINVAL;
    snprintf(s->spill, sizeof s->spill, "%s", value);
    return 0;
}

static int take_rma(struct site *s, size_t at, const char *name, const char *value, char *why,
                    size_t cap) {
    if (site_choice(name, value, "yes, no or auto", why, cap) < 0)
        return -EINVAL;
    snprintf(s->rma, sizeof s->rma, "%s", value);
    return 0;
}

static int take_gpu_bind(struct site *s, size_t at, const char *name, const char *value, char *why,
                         size_t cap) {
    if (site_choice(name, value, SITE_GPU_BIND, why, cap) < 0)
        return -EINVAL;
    snprintf(s->gpu_bind, sizeof s->gpu_bind, "%s", value);
    return 0;
}

static int take_torch_env(struct site *s, size_t at, const char *name, const char *value, char *why,
                          size_t cap) {
    if (site_choice(name, value, SITE_TORCH_ENV, why, cap) < 0)
        return -EINVAL;
    snprintf(s->torch_env, sizeof s->torch_env, "%s", value);
    return 0;
}

static int take_managers(struct site *s, size_t at, const char *name, const char *value, char *why,
                         size_t cap) {
    return ask_managers(name, value, PLACE(uint32_t, s, at), why, cap);
}

static int take_amount(struct site *s, size_t at, const char *name, const char *value, char *why,
                       size_t cap) {
    return ask_amount(name, value, PLACE(struct amount, s, at), why, cap);
}

static int take_mem(struct site *s, size_t at, const char *name, const char *value, char *why,
                    size_t cap) {
    return ask_mem(name, value, PLACE(uint64_t, s, at), why, cap);
}

static int take_share(struct site *s, size_t at, const char *name, const char *value, char *why,
                      size_t cap) {
    struct amount amount;

    if (strchr(value, '%') == NULL || ask_amount(name, value, &amount, why, cap) < 0)
        return wrong(name, value, "a share such as 80%, more than 0% and at most 100%", why, cap);
    *PLACE(uint32_t, s, at) = amount.share;
    return 0;
}

static int take_cache(struct site *s, size_t at, const char *name, const char *value, char *why,
                      size_t cap) {
    struct amount amount = {0};
    int none = strcmp(value, "none") == 0;

    if (!none && ask_amount(name, value, &amount, why, cap) < 0)
        return wrong(name, value,
                     "a size such as 4G, a share of the dictionary's memory such as 50%, or none",
                     why, cap);
    s->cache = amount;
    s->no_cache = none;
    return 0;
}

static int take_hugepages(struct site *s, size_t at, const char *name, const char *value, char *why,
                          size_t cap) {
    uint64_t page;

    if (strlen(value) >= sizeof s->hugepages || hugepages_parse(value, &page) < 0)
        return wrong(name, value, "no, advise, or the size of a huge page such as 2M or 1G", why,
                     cap);
    snprintf(s->hugepages, sizeof s->hugepages, "%s", value);
    return 0;
}

static int take_ports(struct site *s, size_t at, const char *name, const char *value, char *why,
                      size_t cap) {
    const char *dash = strchr(value, '-');
    char low[8];
    uint64_t from, to;

    if (dash == NULL ||
        (size_t)snprintf(low, sizeof low, "%.*s", (int)(dash - value), value) >= sizeof low ||
        count_parse(low, 1, 65535, &from) < 0 || count_parse(dash + 1, from, 65535, &to) < 0)
        return wrong(name, value,
                     "two ports such as 50000-50999, the lower one first, at most 65535", why, cap);
    s->port_low = (uint32_t)from;
    s->port_high = (uint32_t)to;
    return 0;
}

static int take_connections(struct site *s, size_t at, const char *name, const char *value,
                            char *why, size_t cap) {
    uint64_t n;

    if (count_parse(value, 1, DD_CONNECTIONS_MAX, &n) < 0)
        return wrong(name, value, "a number from 1 to 16", why, cap);
    s->connections = (uint32_t)n;
    return 0;
}

static int take_start(struct site *s, size_t at, const char *name, const char *value, char *why,
                      size_t cap) {
    uint64_t n;

    if (count_parse(value, 1, 86400, &n) < 0)
        return wrong(name, value, "seconds from 1 to 86400 (a day)", why, cap);
    s->start_s = (uint32_t)n;
    return 0;
}

static int take_drain(struct site *s, size_t at, const char *name, const char *value, char *why,
                      size_t cap) {
    uint64_t n;

    if (count_parse(value, 0, 86400, &n) < 0)
        return wrong(name, value, "seconds from 0 to 86400 (a day)", why, cap);
    s->drain_ms = (int)n * 1000;
    s->has_drain = 1;
    return 0;
}

static int take_save_lead(struct site *s, size_t at, const char *name, const char *value, char *why,
                          size_t cap) {
    uint64_t n;

    if (count_parse(value, 0, 86400, &n) < 0)
        return wrong(name, value, "seconds from 0 to 86400 (a day)", why, cap);
    s->save_lead = (uint32_t)n;
    s->has_save_lead = 1;
    return 0;
}

static const struct word {
    const char *name;
    take_fn take;
    size_t at;
} words[] = {
    {"ddict", take_path, offsetof(struct site, ddict)},
    {"ddictd", take_path, offsetof(struct site, ddictd)},
    {"srun", take_path, offsetof(struct site, srun)},
    {"log_dir", take_folder, offsetof(struct site, log_dir)},
    {"mpi", take_mpi, offsetof(struct site, mpi)},
    {"managers", take_managers, offsetof(struct site, managers)},
    {"max_managers", take_managers, offsetof(struct site, max_managers)},
    {"mem", take_amount, offsetof(struct site, mem)},
    {"max_mem", take_mem, offsetof(struct site, max_mem)},
    {"max_mem_share", take_share, offsetof(struct site, max_mem_share)},
    {"cache", take_cache, 0},
    {"hugepages", take_hugepages, 0},
    {"ports", take_ports, 0},
    {"connections", take_connections, 0},
    {"transport", take_transport, 0},
    {"spill", take_spill, 0},
    {"rma", take_rma, 0},
    {"start_timeout", take_start, 0},
    {"drain", take_drain, 0},
    {"save_lead", take_save_lead, 0},
    {"gpu_bind", take_gpu_bind, 0},
    {"torch_env", take_torch_env, 0},
};
#define WORDS (sizeof words / sizeof *words)

int site_word(struct site *s, const char *word, const char *where, char *why, size_t cap) {
    const char *equals = strchr(word, '=');
    size_t n = equals != NULL ? (size_t)(equals - word) : strlen(word), i;
    char inner[ASK_WHY];

    for (i = 0; i < WORDS; i++)
        if (strlen(words[i].name) == n && memcmp(words[i].name, word, n) == 0)
            break;
    if (i == WORDS)
        snprintf(why, cap, "%s: unknown word '%.60s'", where, word);
    else if (equals == NULL || equals[1] == '\0')
        snprintf(why, cap, "%s: %s needs a value: %s=...", where, words[i].name, words[i].name);
    else if (words[i].take(s, words[i].at, words[i].name, equals + 1, inner, sizeof inner) < 0)
        snprintf(why, cap, "%s: %s", where, inner);
    else
        return 0;
    return -EINVAL;
}

/* The line without comment and blanks at both ends, in place. */
static char *line_strip(char *line) {
    size_t n;

    line[strcspn(line, "#\n")] = '\0';
    line += strspn(line, " \t\r");
    n = strlen(line);
    while (n > 0 && strchr(" \t\r", line[n - 1]) != NULL)
        line[--n] = '\0';
    return line;
}

int site_read_file(struct site *s, const char *path, char *why, size_t cap) {
    FILE *f = fopen(path, "re");
    char where[SITE_TEXT + 32], *line = NULL;
    size_t room = 0;
    int rc = 0, n = 0;

    if (f == NULL) {
        rc = -errno;
        snprintf(why, cap, "%s: %s", path, strerror(-rc));
        return rc == -ENOENT || rc == -ENOTDIR ? 0 : rc;
    }
    errno = 0;
    while (rc == 0 && getline(&line, &room, f) >= 0) {
        char *text = line_strip(line);

        snprintf(where, sizeof where, "%s line %d", path, ++n);
        if (*text != '\0')
            rc = site_word(s, text, where, why, cap);
    }
    if (rc == 0 && ferror(f)) {
        rc = errno != 0 ? -errno : -EIO;
        snprintf(why, cap, "%s: %s", path, strerror(-rc));
    }
    free(line);
    fclose(f);
    return rc;
}

int site_read(struct site *s, char *why, size_t cap) {
    return site_read_file(s, DDICT_SYSCONFDIR "/ddict.conf", why, cap);
}

int site_judge(const struct site *s, const char *managers_name, uint32_t managers,
               const char *mem_name, uint64_t mem, char *why, size_t cap) {
    char have[16], most[16];

    if (s->max_managers != 0 && managers > s->max_managers)
        snprintf(why, cap, "%s=%u: at most %u on this cluster", managers_name, managers,
                 s->max_managers);
    else if (s->max_mem != 0 && mem > s->max_mem)
        snprintf(why, cap, "%s of %s: at most %s on this cluster", mem_name,
                 size_format(have, sizeof have, mem), size_format(most, sizeof most, s->max_mem));
    else
        return 0;
    return -EINVAL;
}

int site_judge_share(const struct site *s, const char *mem_name, uint64_t mem, uint64_t share,
                     const char *node, uint64_t room, char *why, size_t cap) {
    struct amount limit = {.share = s->max_mem_share};
    char all[16], part[16], have[16], most[16], text[16];

    if (s->max_mem_share == 0 || room == 0 || share <= amount_bytes(&limit, room))
        return 0;
    snprintf(
        why, cap,
        "%s of %s is %s on node %s, where the job has %s: on this cluster at most %s of that, %s",
        mem_name, size_format(all, sizeof all, mem), size_format(part, sizeof part, share), node,
        size_format(have, sizeof have, room), amount_format(text, sizeof text, &limit),
        size_format(most, sizeof most, amount_bytes(&limit, room)));
    return -EINVAL;
}
