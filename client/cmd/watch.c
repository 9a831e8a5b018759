/* SPDX-License-Identifier: Apache-2.0 */
/* watch.c - `ddict watch`: print the events of keys, one line each. */
#include "cmd.h"
#include "verbs.h"
#include <base/size.h>
#include <base/text.h>

#include <common/key_text.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "usage: ddict watch [OPTION...] [PREFIX]\n"
    "Print what happens to keys that begin with PREFIX (default: all), a line each,\n"
    "until the dictionary ends: put KEY, del KEY, clear (all keys of one manager),\n"
    "missed N (events came too fast: list the keys again).\n"
    "      --values         also values of up to 8 KiB that are text or bytes\n"
    "      --there          first the keys that are there already\n"
    "  -n, --count=N        end after N lines\n"
    "      --timeout=SECONDS  end when nothing happened for so long; exit code 3\n" CMD_KEY_USAGE
        CMD_COMMON_USAGE;

enum { TAG_BYTES = 0, TAG_STR = 4, TAG_INT = 5 }; /* doc/FORMAT.md */

static int line_print(const struct ddict_event *e, struct bytes *text, bool values) {
    static const char *const kind[] = {"", "put", "del", "clear"};
    if (e->kind == DDICT_EVENT_MISSED) {
        printf("missed %llu\n", (unsigned long long)e->missed);
    } else if (e->kind == DDICT_EVENT_CLEAR) {
        printf("clear\n");
    } else {
        if (key_show(text, e->key, e->klen, NULL) < 0)
            return -1;
        printf("%s ", kind[e->kind]);
        fwrite(text->data, 1, text->len, stdout);
        if (values && e->val && (e->tag == TAG_BYTES || e->tag == TAG_STR || e->tag == TAG_INT)) {
            putchar('\t');
            const uint8_t *v = e->val;
            /* escape what would break the line or control the terminal */
            for (size_t i = 0, n; i < e->vlen; i += n) {
                n = v[i] < 0x80 ? v[i] >= ' ' && v[i] != 0x7f : utf8_length(v + i, e->vlen - i);
                if (n > 0)
                    fwrite(v + i, 1, n, stdout);
                else
                    printf(v[i] == '\n' ? "\\n" : "\\x%02x", v[i]);
                n += n == 0;
            }
        }
        putchar('\n');
    }
    return fflush(stdout);
}

int cmd_watch(int argc, char **argv) {
    static const struct option longs[] = {CMD_LONGS,
                                          CMD_KEY_LONGS,
                                          {"values", no_argument, NULL, 'v'},
                                          {"there", no_argument, NULL, 't'},
                                          {"count", required_argument, NULL, 'n'},
                                          {"timeout", required_argument, NULL, 'w'},
                                          {0}};
    enum key_form form = KEY_STR;
    struct bytes prefix = {0}, text = {0};
    uint64_t count = UINT64_MAX;
    unsigned flags = DDICT_SUB_DELS;
    int wait_ms = -1;
    for (int c; (c = cmd_option(argc, argv, "hn:", longs, usage)) != -1;) {
        if (c == '?')
            return EXIT_USAGE;
        if (cmd_key_option(c, &form))
            continue;
        flags |= c == 'v' ? DDICT_SUB_VALUES : c == 't' ? DDICT_SUB_THERE : 0;
        if (c == 'n' && count_parse(optarg, 1, UINT64_MAX, &count) < 0)
            return cmd_usage(usage, "--count=%s: a number is wanted", optarg);
        if (c == 'w' && (wait_ms = cmd_seconds(optarg)) < 0)
            return cmd_usage(usage, "--timeout=%s: a number of seconds is wanted", optarg);
    }
    if (optind + 1 < argc)
        return cmd_usage(usage, "takes one prefix");
    const char *word = optind < argc ? argv[optind] : NULL;
    if (word && cmd_key_of(&prefix, form, word) < 0)
        return cmd_usage(usage, "\"%s\": not of that form", word);
    ddict_t *d = cmd_attach();
    ddict_sub_t *sub = NULL;
    int rc = !d ? EXIT_FAILED : EXIT_OK;
    int e = !d ? 0 : ddict_subscribe(d, prefix.data, prefix.len, flags, &sub, -1);
    while (sub && count > 0) {
        struct ddict_event event;
        e = ddict_next_event(sub, &event, wait_ms < 0 ? 1000 : wait_ms);
        if (e < 0 || (e == 0 && wait_ms >= 0) || (e == 0 && ddict_ending(d) != 0) ||
            (e == 1 && line_print(&event, &text, flags & DDICT_SUB_VALUES) != 0))
            break;
        count -= (uint64_t)e;
    }
    if (e == 0 && wait_ms >= 0 && count > 0)
        rc = EXIT_NO_KEY;
    if (e < 0 && e != DDICT_EGONE)
        rc = cmd_failed(NULL, e);
    ddict_unsubscribe(sub);
    ddict_detach(d);
    bytes_free(&prefix);
    bytes_free(&text);
    return cmd_flush(rc);
}
