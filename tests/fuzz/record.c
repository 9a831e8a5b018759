/* SPDX-License-Identifier: Apache-2.0 */
/* record.c - the record of a job, as `ddict report` reads it and shows it on a terminal. */
#include "fuzz.h"
#include <base/error.h>

#include <cmd/report/record_read.h>
#include <cmd/report/report_print.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static char *shown, *json;
    struct record r;
    size_t shown_n = 0, json_n = 0;
    char *complaint = NULL;
    fuzz_must(record_init(&r) == 0);
    int rc = record_read(&r, fuzz_file(data, size), &complaint);
    fuzz_must(rc == 0 ? r.count > 0 : rc < 0 && *dd_errmsg());
    FILE *out = open_memstream(&shown, &shown_n);
    fuzz_must(out && report_print(&r, out, 80) == 0 && fclose(out) == 0);
    for (size_t i = 0; i < shown_n; i++) /* nothing that a terminal obeys */
        fuzz_must(shown[i] == '\n' || ((uint8_t)shown[i] >= ' ' && shown[i] != '\177'));
    out = open_memstream(&json, &json_n);
    fuzz_must(out && report_json(&r, out) == 0 && fclose(out) == 0);
    for (size_t i = 0; i < r.count; i++)
        fuzz_read(record_text(&r.dict[i], "name"), strlen(record_text(&r.dict[i], "name")) + 1);
    free(shown);
    free(json);
    free(complaint);
    record_free(&r);
    return 0;
}
