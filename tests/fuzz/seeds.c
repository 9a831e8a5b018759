/* SPDX-License-Identifier: Apache-2.0 */
/*
 * seeds.c - runs a fuzz target without libFuzzer: once with no bytes, and once for each file of
 * $srcdir/tests/fuzz/corpus/TARGET, or for each FILE on the command line.
 */
#include "fuzz.h"

#include <dirent.h>
#include <errno.h>

static int run(const char *path) {
    FILE *f = fopen(path, "re");
    size_t n = 0, cap = 4096;
    uint8_t *data = malloc(cap), *whole;
    if (!f || !data) {
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
        return 1;
    }
    for (size_t got; (got = fread(data + n, 1, cap - n, f)) > 0;) {
        n += got;
        if (n == cap && !(data = realloc(data, cap *= 2)))
            return 1;
    }
    fclose(f);
    whole = malloc(n + (n == 0)); /* ends where the input ends: a sanitizer sees the byte behind */
    if (!whole)
        return 1;
    memcpy(whole, data, n);
    free(data);
    fprintf(stderr, "%s: %zu bytes\n", path, n);
    LLVMFuzzerTestOneInput(whole, n);
    free(whole);
    return 0;
}

int main(int argc, char **argv) {
    const char *source = getenv("srcdir"), *name = program_invocation_short_name;
    char folder[4096], path[8192];
    unsigned seeds = 0;
    int bad = 0;
    for (int i = 1; i < argc; i++)
        bad |= run(argv[i]);
    if (argc > 1)
        return bad;
    LLVMFuzzerTestOneInput((const uint8_t *)"", 0);
    name += strncmp(name, "lt-", 3) == 0 ? 3 : 0; /* libtool's */
    snprintf(folder, sizeof folder, "%s/tests/fuzz/corpus/%s", source ? source : ".", name);
    DIR *d = opendir(folder);
    if (!d) {
        fprintf(stderr, "%s: %s\n", folder, strerror(errno));
        return 1;
    }
    for (struct dirent *e; (e = readdir(d));) {
        if (e->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        bad |= run(path);
        seeds++;
    }
    closedir(d);
    printf("%s %u seeds of %s\n", bad || seeds == 0 ? "not ok" : "ok", seeds, name);
    return bad || seeds == 0;
}
