/* SPDX-License-Identifier: Apache-2.0 */
/* report.c - the figures of all managers at the end, as one JSON object on one line (node 0). */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <base/error.h>
#include <base/stats.h>
#include <manager/supervisor.h>

struct figures {
    bool have;
    struct ddict_manager_stats stats;
};

int report_init(struct supervisor *s) {
    s->figures = calloc(s->managers, sizeof *s->figures);
    return s->figures ? 0 : dd_error(-ENOMEM, "no memory for the figures of %u managers", s->managers);
}

void report_take(struct supervisor *s, const struct ddict_manager_stats *st) {
    if (st->manager_id >= s->managers) return;
    struct figures *f = &s->figures[st->manager_id];
    f->stats = *st;
    f->stats.hostname[sizeof st->hostname - 1] = f->stats.node[sizeof st->node - 1] = 0; /* they may come from another node */
    f->have = true;
}

void report_say(struct supervisor *s) {
    struct ddict_manager_stats total;
    char *text = NULL;
    size_t len = 0;
    FILE *f = open_memstream(&text, &len);
    if (!f) return;
    memset(&total, 0, sizeof total);
    fputs("{\"managers\":[", f);
    for (uint32_t m = 0; m < s->managers; m++) {
        char *one = s->figures[m].have ? stats_json(&s->figures[m].stats) : NULL;
        if (m) fputc(',', f);
        if (one) {
            fputs(one, f);
            stats_merge(&total, &s->figures[m].stats);
        } else fprintf(f, "{\"manager_id\":%u,\"lost\":true}", m);
        free(one);
    }
    char *all = stats_json(&total);
    fprintf(f, "],\"total\":%s}", all ? all : "{}");
    free(all);
    if (fclose(f) == 0) say_text("report", text);
    free(text);
}
