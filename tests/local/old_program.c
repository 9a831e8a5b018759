/* SPDX-License-Identifier: Apache-2.0 */
/*
 * old_program.c - a part of a program that was compiled with an earlier ddict.h, whose struct
 * ddict_manager_stats ended sooner. It includes no header of today; what it declares is what that
 * header said.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef struct ddict_handle ddict_t;
struct ddict_manager_stats {
    uint32_t manager_id, node_id, pid;
    int32_t state;
    char hostname[64], node[64];
    uint64_t total_bytes, total_used_bytes, pool_free_space;
    double pool_utilization;
    uint64_t num_keys;
};
int ddict_stats(ddict_t *d, struct ddict_manager_stats **out, size_t size, int timeout_ms);
char *ddict_stats_json(const struct ddict_manager_stats *s, size_t size);

int old_program_keys(ddict_t *d);

/* The keys of all managers; -1 where anything is not as that header said. */
int old_program_keys(ddict_t *d) {
    struct ddict_manager_stats *s;
    int n = ddict_stats(d, &s, sizeof *s, -1), keys = 0;
    for (int i = 0; i < n; i++) {
        char *text = ddict_stats_json(&s[i], sizeof s[i]);
        if (s[i].manager_id != (uint32_t)i || s[i].total_bytes == 0 ||
            s[i].total_used_bytes > s[i].total_bytes || !memchr(s[i].node, 0, sizeof s[i].node) ||
            !text || !strstr(text, s[i].node))
            return -1;
        keys += (int)s[i].num_keys;
        free(text);
    }
    if (n > 0)
        free(s);
    return n > 0 ? keys : -1;
}
