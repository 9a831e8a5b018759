/* SPDX-License-Identifier: Apache-2.0 */
/* freeze.c - `ddict freeze`, `ddict unfreeze`. */
#include "cmd.h"
#include "verbs.h"

static const char freeze_usage[] =
    "usage: ddict freeze [OPTION...]\n"
    "Make the dictionary read-only for all its processes, until `ddict unfreeze`.\n"
    "Each node keeps the values of other nodes that it reads meanwhile.\n"
    "      --timeout=SECONDS  how long to wait for the managers (default: 60)\n" CMD_COMMON_USAGE;
static const char unfreeze_usage[] =
    "usage: ddict unfreeze [OPTION...]\n"
    "Make a frozen dictionary writable again.\n"
    "      --timeout=SECONDS  how long to wait for the managers (default: 60)\n" CMD_COMMON_USAGE;

static int freeze_run(int argc, char **argv, const char *usage, int (*fn)(ddict_t *, int)) {
    static const struct option longs[] = {
        CMD_LONGS, {"timeout", required_argument, NULL, 't'}, {0}};
    int timeout_ms = -1;
    for (int c; (c = cmd_option(argc, argv, "h", longs, usage)) != -1;) {
        if (c == '?')
            return EXIT_USAGE;
        if ((timeout_ms = cmd_seconds(optarg)) < 0)
            return cmd_usage(usage, "--timeout=%s: a number of seconds is wanted", optarg);
    }
    if (optind < argc)
        return cmd_usage(usage, "there is no \"%s\" to be given", argv[optind]);
    ddict_t *d = cmd_attach();
    if (!d)
        return EXIT_FAILED;
    int rc = fn(d, timeout_ms);
    rc = rc < 0 ? cmd_failed(NULL, rc) : EXIT_OK;
    ddict_detach(d);
    return rc;
}

int cmd_freeze(int argc, char **argv) {
    return freeze_run(argc, argv, freeze_usage, ddict_freeze);
}
int cmd_unfreeze(int argc, char **argv) {
    return freeze_run(argc, argv, unfreeze_usage, ddict_unfreeze);
}
