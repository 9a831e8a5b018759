/* SPDX-License-Identifier: Apache-2.0 */
/* up_program.c - a program that makes its own dictionary over the nodes of its job, for
 * 63-up-program.t. */
#include <ddict.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void failed(const char *what) {
    fprintf(stderr, "%s: %s\n", what, ddict_errmsg());
    exit(1);
}

int main(int argc, char **argv) {
    const char *options[] = {"--managers=4", "--mem=64M", "--record=none", NULL};
    struct ddict_info info;
    ddict_t *d;

    if (ddict_up(&d, options, -1) < 0 || ddict_get_info(d, &info) < 0)
        failed("ddict_up");
    printf("nodes %u managers %u\n", info.nodes, info.managers);
    for (int i = 0; i < 100; i++)
        if (ddict_put(d, &i, sizeof i, "value", 5, 0, -1) < 0)
            failed("ddict_put");
    printf("keys %lld\n", (long long)ddict_len(d, -1));
    if (argc > 1 && strcmp(argv[1], "down") == 0) {
        ddict_detach(d);
        if (ddict_down(NULL, -1) < 0)
            failed("ddict_down");
        printf("down\n");
    }
    return 0; /* else exit() ends it */
}
