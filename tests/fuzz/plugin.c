/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plugin.c - what the plugin reads in slurmstepd, as root, of a user: the request of a job, and the
 * cgroups of a process that the user named.
 */
#include "../../plugin/job_process.h"
#include "../../plugin/request.h"
#include "fuzz.h"

#include <errno.h>

static void request_take(char *text) {
    struct ask_options ask, again;
    char written[REQUEST_MAX];
    if (request_read(text, &ask) < 0)
        return;
    int n = request_write(written, sizeof written, &ask);
    fuzz_must(n == -ENOSPC || (n >= 0 && strlen(written) == (size_t)n));
    if (n < 0 || request_read(written, &again) < 0)
        return;
    for (int i = 0; i < OPTS; i++) /* what was written is read as it was */
        fuzz_must(!ask.value[i] == !again.value[i] &&
                  (!ask.value[i] || strcmp(ask.value[i], again.value[i]) == 0));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct fuzz_input in = {data, size};
    char *mine = fuzz_text(&in, in.left), *its = strstr(mine, "\n\n");
    if (its) { /* two files, with an empty line between them */
        its[1] = 0;
        its = strdup(its + 2);
        fuzz_must(its);
        if (belongs_by_cgroup(mine, its, 17))
            fuzz_must(strstr(its, "/step_batch"));
        free(its);
    }
    request_take(mine);
    free(mine);
    return 0;
}
