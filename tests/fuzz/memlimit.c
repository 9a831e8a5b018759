/* SPDX-License-Identifier: Apache-2.0 */
/* memlimit.c - the lines of /proc/self/cgroup and /proc/self/mountinfo: others name cgroups and
 * places of mounts. */
#include "fuzz.h"
#include <store/store.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static bool began;
    const char *file = fuzz_file(data, size), *limit = "";
    if (!began)
        memlimit_total(); /* the first call looks up our own */
    began = true;
    memlimit_find_in(file, file); /* lines of both kinds */
    memlimit_room(&limit);
    fuzz_read(limit, strlen(limit));
    memlimit_slowed(&limit);
    fuzz_read(limit, strlen(limit));
    fuzz_read(memlimit_reached(), strlen(memlimit_reached()));
    memlimit_total();
    memlimit_kills();
    return 0;
}
