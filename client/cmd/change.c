/* SPDX-License-Identifier: Apache-2.0 */
/* change.c - `ddict add`, `ddict append`: changes that depend on the value that is there. */
#include "cmd.h"
#include "verbs.h"
#include <base/error.h>
#include <base/verb.h>

#include <common/key_text.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char add_usage[] =
    "usage: ddict add [OPTION...] KEY [DELTA]\n"
    "Add DELTA (1) to the int of KEY, and print the sum. A key that is not there\n"
    "counts 0. A DELTA that begins with a minus sign follows \"--\":\n"
    "ddict add -- left -1\n" CMD_KEY_USAGE CMD_COMMON_USAGE;
static const char append_usage[] =
    "usage: ddict append [OPTION...] KEY VALUE|-\n"
    "Put VALUE, or stdin (-), behind the value of KEY; a key that is not there gets\n"
    "it, as bytes.\n" CMD_KEY_USAGE CMD_COMMON_USAGE;

/* Of most words at least `least`, the first of which is the key. */
static int words_take(int argc, char **argv, const char *usage, int least, int most,
                      enum key_form *form) {
    static const struct option longs[] = {CMD_LONGS, CMD_KEY_LONGS, {0}};
    for (int c; (c = cmd_option(argc, argv, "h", longs, usage)) != -1;)
        if (c == '?' || !cmd_key_option(c, form))
            return EXIT_USAGE;
    if (argc - optind < least || argc - optind > most)
        return cmd_usage(usage, least == 2 ? "wants a key and a value" : "wants a key and a DELTA");
    return EXIT_OK;
}

int cmd_add(int argc, char **argv) {
    enum key_form form = KEY_STR;
    struct bytes key = {0};
    int64_t delta = 1, sum = 0;
    int rc = words_take(argc, argv, add_usage, 1, 2, &form), e;
    if (rc == EXIT_OK && optind + 1 < argc) {
        char *end;
        errno = 0;
        delta = strtoll(argv[optind + 1], &end, 10);
        if (errno != 0 || *end != 0 || end == argv[optind + 1])
            return cmd_usage(add_usage, "\"%s\" is no int of 64 bits", argv[optind + 1]);
    }
    if (rc == EXIT_OK)
        rc = cmd_key_read(&key, form, argv[optind], add_usage);
    ddict_t *d = rc == EXIT_OK ? cmd_attach() : NULL;
    if (rc == EXIT_OK && !d)
        rc = EXIT_FAILED;
    if (rc == EXIT_OK && (e = ddict_add(d, key.data, key.len, delta, &sum, -1)) < 0)
        rc = cmd_failed(argv[optind], e);
    if (rc == EXIT_OK) {
        printf("%" PRId64 "\n", sum);
        rc = cmd_flush(rc);
    }
    bytes_free(&key);
    ddict_detach(d);
    return rc;
}

int cmd_append(int argc, char **argv) {
    enum key_form form = KEY_STR;
    struct bytes key = {0}, val = {0};
    int rc = words_take(argc, argv, append_usage, 2, 2, &form), e;
    if (rc == EXIT_OK)
        rc = cmd_key_read(&key, form, argv[optind], append_usage);
    const char *text = rc == EXIT_OK ? argv[optind + 1] : "";
    bool in = strcmp(text, "-") == 0;
    if (in)
        cmd_relay_stdin(NULL);
    ddict_t *d = rc == EXIT_OK ? cmd_attach() : NULL;
    if (rc == EXIT_OK && !d)
        rc = EXIT_FAILED;
    if (rc == EXIT_OK && in)
        rc = cmd_file_read(&val, NULL);
    else if (rc == EXIT_OK && bytes_add(&val, text, strlen(text)) < 0)
        rc = EXIT_FAILED;
    if (rc == EXIT_OK &&
        (e = ddict_append(d, key.data, key.len, val.data, val.len, 0, NULL, -1)) < 0)
        rc = cmd_failed(argv[optind], e);
    bytes_free(&key);
    bytes_free(&val);
    ddict_detach(d);
    return rc;
}
