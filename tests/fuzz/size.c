/* SPDX-License-Identifier: Apache-2.0 */
/* size.c - sizes, counts, pages and Slurm's lists of nodes: the texts of options and variables. */
#include "fuzz.h"
#include <base/hostlist.h>
#include <base/size.h>
#include <base/text.h>

#include <errno.h>

static void size_take(const char *text) {
    char shown[16];
    uint64_t bytes = 0, page = 0, n = 0;
    int e = size_parse(text, &bytes);
    fuzz_must(e == 0 || e == -EINVAL || e == -ERANGE);
    fuzz_must(bytes <= INT64_MAX);
    fuzz_must(strlen(size_format(shown, sizeof shown, bytes)) < sizeof shown);
    e = hugepages_parse(text, &page);
    fuzz_must(e == -EINVAL || (e == 0 && (page & (page - 1)) == 0));
    e = count_parse(text, 3, 300, &n);
    fuzz_must(e == 0 ? n >= 3 && n <= 300 : e == -EINVAL || e == -ERANGE);
    e = count_parse(text, 0, UINT64_MAX, &n);
    fuzz_must(e != 0 || n == strtoull(text, NULL, 10));
}

static void hostlist_take(const char *text) {
    struct hostlist list = {0};
    if (fuzz_list_passed(text))
        return;
    int e = hostlist_add(&list, text);
    fuzz_must(e == 0 || e == -EINVAL || e == -E2BIG);
    fuzz_must(list.count <= HOSTLIST_MAX);
    for (size_t i = 0; i < list.count && i < 8; i++) {
        long at = hostlist_find(&list, list.names[i]);
        fuzz_must(at >= 0 && (size_t)at <= i);
    }
    hostlist_free(&list);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct fuzz_input in = {data, size};
    for (char *line; (line = fuzz_line(&in)); free(line)) {
        size_take(line);
        hostlist_take(line);
        size_t n = strlen(line);
        text_plain(line);
        fuzz_must(strlen(line) == n && !strpbrk(line, "\t\r\033\177"));
    }
    return 0;
}
