/* SPDX-License-Identifier: Apache-2.0 */
/* summary.c - what the user is told of a load that is complete, summary.h */
#include "summary.h"

#include "load.h"
#include "pack.h"
#include "progress.h"
#include "text_json.h"
#include <base/error.h>
#include <base/size.h>
#include <base/verb.h>

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

static void texts_print(const char *head, const struct pack *texts, json_t *into) {
    struct unpack u = {.at = texts->data, .left = texts->len};
    while (u.left > 0 && !u.bad) {
        size_t n;
        const char *text = unpack_text(&u, &n);
        dd_error(0, "%s: %.*s", head, (int)n, text);
        verb_say("%s", dd_errmsg());
        if (into)
            json_array_append_new(into, text_json(text, n));
    }
}

/* s->once as a sentence in text; or NULL. */
static const char *refill_note(const char *once, char *text, size_t cap) {
    if (!once || *once == 0)
        return NULL;
    snprintf(text, cap, "the set is not read again when a node is lost: %s", once);
    return text;
}

static double rate_of(const struct summary *s) {
    return s->seconds > 0 ? (double)s->bytes / 1e6 / s->seconds / the_load.info.nodes : 0;
}

/* False: it could not be written. */
static bool object_print(const struct summary *s, const char *note, json_t *errors) {
    const struct set_result *r = s->result;
    json_t *o = json_pack("{s:s,s:s,s:I,s:I,s:f,s:f,s:I,s:I,s:I,s:I,s:I,s:I,s:b,s:o,s:O}", "set",
                          the_load.set, "kind", the_load.origins[0].kind->name, "items",
                          (json_int_t)s->items, "bytes", (json_int_t)s->bytes, "seconds",
                          s->seconds, "mb_per_s_node", rate_of(s), "nodes",
                          (json_int_t)the_load.info.nodes, "workers", (json_int_t)the_load.workers,
                          "there", (json_int_t)s->there, "skipped", (json_int_t)r->failed,
                          "left_out", (json_int_t)r->left_out, "classes", (json_int_t)r->classes,
                          "already", s->already, "units", s->units, "errors", errors);
    if (o && note)
        json_object_set_new(o, "note", json_string(note));
    char *text = o ? json_dumps(o, JSON_COMPACT | JSON_REAL_PRECISION(6)) : NULL;
    bool bad = !text || puts(text) == EOF;
    free(text);
    json_decref(o);
    return !bad;
}

static void already_print(const struct summary *s) {
    char have[24];
    dd_error(0, "%s", the_load.set); /* removes control characters */
    printf("%s is loaded already: %" PRIu64 " items, %s", dd_errmsg(), s->items,
           size_format(have, sizeof have, s->bytes));
    if (s->repaired > 0)
        printf(", of which %" PRIu64 " were lost with a node and read again", s->repaired);
    putchar('\n');
}

static void loaded_print(const struct summary *s) {
    const struct set_result *r = s->result;
    char have[24];
    dd_error(0, "%s", the_load.set);
    printf("%s: %" PRIu64 " items, %s (%" PRIu64
           " bytes) in %.2f s, %.1f MB/s on each of %u node%s",
           dd_errmsg(), s->items, size_format(have, sizeof have, s->bytes), s->bytes, s->seconds,
           rate_of(s), the_load.info.nodes, the_load.info.nodes == 1 ? "" : "s");
    if (r->classes > 0)
        printf(", %" PRIu64 " classes", r->classes);
    if (s->there > 0)
        printf(", %" PRIu64 " items were there already", s->there);
    if (r->failed > 0)
        printf(", %" PRIu64 " skipped", r->failed);
    putchar('\n');
}

int summary_print(const struct summary *s) {
    const struct set_result *r = s->result;
    char once[200];
    json_t *errors = json_array();
    bool good = true;
    progress_clear();
    texts_print("left out", &r->left, NULL);
    if (r->left_out > 0)
        verb_say("%" PRIu64 " members that are no files were left out", r->left_out);
    texts_print("skipped", &r->failures, errors);
    if (r->twice > 0)
        verb_say("%" PRIu64 " names came more than once; the last one of each is kept", r->twice);
    const char *note = refill_note(s->once, once, sizeof once);
    if (note && !the_load.o->report)
        verb_say("%s", note);
    if (the_load.o->json)
        good = object_print(s, note, errors);
    else if (s->already)
        already_print(s);
    else
        loaded_print(s);
    json_decref(errors);
    return fflush(stdout) == 0 && good ? 0 : 1;
}
