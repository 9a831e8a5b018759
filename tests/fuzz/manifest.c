/* SPDX-License-Identifier: Apache-2.0 */
/* manifest.c - what `ddict restore` and a new save read of a saved dictionary: its manifest.json, or
 * the begin and end of one that is a single file. */
#include "fuzz.h"

#include <save/manifest.h>

static char folder[4096], link_path[4200];

static void folder_end(void) {
    unlink(link_path);
    rmdir(folder);
}

/* A folder in which manifest.json is the file of fuzz_file(). */
static void folder_begin(const char *file) {
    if (*link_path)
        return;
    const char *tmp = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%s/ddict-fuzz.XXXXXX", tmp ? tmp : "/tmp");
    fuzz_must(mkdtemp(folder));
    snprintf(link_path, sizeof link_path, "%s/manifest.json", folder);
    fuzz_must(symlink(file, link_path) == 0 && atexit(folder_end) == 0);
}

/* A part is a file of this folder, whatever its name says. */
static void part_take(const json_t *part) {
    const char *file = json_string_value(json_object_get(part, "file"));
    fuzz_must(file && *file && *file != '.' && !strchr(file, '/'));
    fuzz_must(json_is_integer(json_object_get(part, "size")));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const char *file = fuzz_file(data, size);
    struct save_run run = {.folder = folder, .parts = NULL};
    uint64_t items, bytes;
    json_t *part;
    size_t i;
    folder_begin(file);
    if (manifest_read(&run, &items, &bytes) == 0) {
        json_array_foreach(run.parts, i, part) part_take(part);
        manifest_parts_there(&run, run.parts);
        fuzz_must(manifest_foreign(folder) == 0);
    }
    json_decref(run.parts);
    run.parts = NULL;
    run.folder = file;
    if (manifest_read(&run, &items, &bytes) == 0)
        fuzz_must(run.one_file && json_array_size(run.parts) == 1);
    json_decref(run.parts);
    return 0;
}
