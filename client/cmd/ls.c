/* SPDX-License-Identifier: Apache-2.0 */
/* ls.c - `ddict ls`. */
#include "cmd.h"
#include "ls_published.h"
#include "ls_sets.h"
#include "value_kind.h"
#include "verbs.h"
#include <base/error.h>
#include <base/size.h>

#include <common/key_text.h>
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "usage: ddict ls [OPTION...] | --sets [OPTION...] | --published [OPTION...]\n"
    "List the keys, in no order, as Python writes them: 'a', b'\\x00', 7, ('x', 3).\n"
    "Keys of C programs that are not of this form are shown as their bytes.\n"
    "  -a, --all            hidden keys, too: those of sets, queues and results\n"
    "  -l, --long           also the size and kind of the value, and its manager\n"
    "  -p, --prefix=P       only str keys that begin with P; with --int, --literal\n"
    "                       or --raw-key only keys of that form\n"
    "  -n, --limit=N        at most N keys\n"
    "      --sets           the data sets that `ddict load` made, instead of keys\n"
    "      --published      what is published (ddict_publish(3)), instead of keys\n"
    "      --json           an array of objects\n" CMD_KEY_USAGE CMD_COMMON_USAGE;

struct listing {
    ddict_t *d;
    bool details, json, hidden;
    struct bytes prefix, text;
    uint64_t limit, count;
};

static int json_line(struct listing *l, const void *key, size_t klen, size_t vlen, unsigned tag) {
    char hex[2 * 64 + 1] = "";
    for (size_t i = 0; i < klen && i < 64; i++)
        snprintf(hex + 2 * i, 3, "%02x", ((const uint8_t *)key)[i]);
    json_t *o = json_pack("{s:s%,s:s,s:I,s:I}", "key", (const char *)l->text.data, l->text.len,
                          "hex", hex, "key_bytes", (json_int_t)klen, "manager",
                          (json_int_t)ddict_owner(l->d, key, klen));
    if (!o)
        return -1;
    if (l->details) {
        json_object_set_new(o, "bytes", json_integer((json_int_t)vlen));
        json_object_set_new(o, "kind", json_string(value_kind(tag)));
    }
    char *s = json_dumps(o, JSON_COMPACT);
    json_decref(o);
    if (!s)
        return -1;
    printf("%s\n%s", l->count > 0 ? "," : "", s);
    free(s);
    return 0;
}

/* 1: shown; 0: the key was removed meanwhile; or a negative code. */
static int key_line(struct listing *l, const void *key, size_t klen) {
    size_t vlen = 0;
    unsigned tag = 0;
    if (l->details) {
        int rc = ddict_get(l->d, key, klen, NULL, 0, &vlen, &tag, 0, -1);
        if (key_is_absent(rc))
            return 0;
        if (rc < 0 && rc != DDICT_ESMALL)
            return rc;
    }
    if (key_show(&l->text, key, klen, NULL) < 0)
        return -ENOMEM;
    if (l->json)
        return json_line(l, key, klen, vlen, tag) < 0 ? -ENOMEM : 1;
    if (l->details) {
        char b[24];
        printf("%10s  %-9s  %5u  ", size_format(b, sizeof b, vlen), value_kind(tag),
               ddict_owner(l->d, key, klen));
    }
    fwrite(l->text.data, 1, l->text.len, stdout);
    putchar('\n');
    return 1;
}

static int keys_list(struct listing *l) {
    ddict_iter_t *it;
    const void *key;
    size_t klen;
    int rc = ddict_iter_open_flags(l->d, -1, l->prefix.data, l->prefix.len,
                                   l->hidden ? DDICT_ITER_HIDDEN : 0, &it, -1);
    if (rc < 0)
        return rc;
    if (l->json)
        putchar('[');
    else if (l->details)
        printf("%10s  %-9s  %5s  %s\n", "size", "kind", "mgr", "key");
    while (l->count < l->limit && (rc = ddict_iter_next(it, &key, &klen)) == 1) {
        if ((rc = key_line(l, key, klen)) < 0)
            break;
        l->count += (uint64_t)rc;
        if (ferror(stdout))
            break;
    }
    ddict_iter_close(it);
    if (l->json)
        puts("\n]");
    return rc < 0 ? rc : 0;
}

int cmd_ls(int argc, char **argv) {
    static const struct option longs[] = {CMD_LONGS,
                                          CMD_KEY_LONGS,
                                          {"prefix", required_argument, NULL, 'p'},
                                          {"limit", required_argument, NULL, 'n'},
                                          {"json", no_argument, NULL, 'j'},
                                          {"long", no_argument, NULL, 'l'},
                                          {"all", no_argument, NULL, 'a'},
                                          {"sets", no_argument, NULL, 'S'},
                                          {"published", no_argument, NULL, 'P'},
                                          {0}};
    struct listing l = {.limit = UINT64_MAX};
    enum key_form form = KEY_STR;
    const char *prefix = NULL;
    bool sets = false, published = false;
    for (int c; (c = cmd_option(argc, argv, "ahlp:n:", longs, usage)) != -1;) {
        if (c == '?')
            return EXIT_USAGE;
        if (cmd_key_option(c, &form))
            continue;
        if (c == 'S')
            sets = true;
        else if (c == 'P')
            published = true;
        else if (c == 'p')
            prefix = optarg;
        else if (c == 'a')
            l.hidden = true;
        else if (c == 'l')
            l.details = true;
        else if (c == 'j')
            l.json = true;
        else if (count_parse(optarg, 0, UINT64_MAX, &l.limit) < 0)
            return cmd_usage(usage, "--limit=%s: a number is wanted", optarg);
    }
    if (optind < argc)
        return cmd_usage(usage, "takes no \"%s\"; did you mean --prefix?", argv[optind]);
    if (prefix && cmd_key_of(&l.prefix, form, prefix) < 0)
        return cmd_usage(usage, "--prefix=%s: not of that form", prefix);
    if (sets && published)
        return cmd_usage(usage, "--sets and --published are two lists");
    l.d = cmd_attach();
    int rc = !l.d ? EXIT_FAILED : EXIT_OK, e;
    if (l.d && sets)
        rc = sets_show(l.d, l.json);
    else if (l.d && published)
        rc = published_show(l.d, l.json);
    else if (l.d && (e = keys_list(&l)) < 0)
        rc = cmd_failed(NULL, e);
    bytes_free(&l.prefix);
    bytes_free(&l.text);
    ddict_detach(l.d);
    return cmd_flush(rc);
}
