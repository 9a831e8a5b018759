/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz.h - what the fuzz targets share. A target is one file with LLVMFuzzerTestOneInput(), which
 * gives its input to the code that reads such bytes in the product, and checks what came of it.
 * libFuzzer calls it (make fuzz), or seeds.c for each file of tests/fuzz/corpus/TARGET (make check).
 */
#ifndef DDICT_TESTS_FUZZ_H
#define DDICT_TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Always 0. data ends where its memory ends, so that a read behind it is found. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What holds for every input. A finding otherwise. */
#define fuzz_must(ok)                                                                         \
    do {                                                                                      \
        if (!(ok)) {                                                                          \
            fprintf(stderr, "%s:%d: not true for this input: %s\n", __FILE__, __LINE__, #ok); \
            abort();                                                                          \
        }                                                                                     \
    } while (0)

/* --- the input, taken apart from its beginning; behind its end there are zeros --- */
struct fuzz_input {
    const uint8_t *at;
    size_t left;
};

static inline void fuzz_copy(struct fuzz_input *in, void *to, size_t n) {
    size_t have = n < in->left ? n : in->left;
    memset(to, 0, n);
    if (have > 0)
        memcpy(to, in->at, have);
    in->at += have;
    in->left -= have;
}

static inline uint8_t fuzz_byte(struct fuzz_input *in) {
    uint8_t byte;
    fuzz_copy(in, &byte, 1);
    return byte;
}

/* The next n bytes, fewer at the end, as a text of its own: to be freed. */
static inline char *fuzz_text(struct fuzz_input *in, size_t n) {
    n = n < in->left ? n : in->left;
    char *text = malloc(n + 1);
    fuzz_must(text);
    if (n > 0)
        memcpy(text, in->at, n);
    text[n] = 0;
    in->at += n;
    in->left -= n;
    return text;
}

/* The next line without its newline; NULL at the end. To be freed. */
static inline char *fuzz_line(struct fuzz_input *in) {
    if (in->left == 0)
        return NULL;
    const uint8_t *end = memchr(in->at, '\n', in->left);
    char *line = fuzz_text(in, end ? (size_t)(end - in->at) : in->left);
    if (end) {
        in->at++;
        in->left--;
    }
    return line;
}

/* A file without a name that holds these bytes: its path, the same for each call. */
static inline const char *fuzz_file(const void *data, size_t size) {
    static char path[32];
    static int fd = -1;
    if (fd < 0) {
        fd = memfd_create("fuzz", MFD_CLOEXEC);
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    }
    fuzz_must(fd >= 0 && (size == 0 || pwrite(fd, data, size, 0) == (ssize_t)size));
    fuzz_must(ftruncate(fd, (off_t)size) == 0); /* of an earlier input nothing is left */
    return path;
}

/* A sum that the compiler cannot leave out: all n bytes can be read. */
static inline void fuzz_read(const void *data, size_t n) {
    uint8_t sum = 0;
    for (size_t i = 0; i < n; i++)
        sum = (uint8_t)(sum + ((const uint8_t *)data)[i]);
    __asm__ volatile("" : : "r"(sum));
}

/* Whether a list of nodes is passed over: it may be of more than a thousand names, which take a
 * millisecond, and is not one of 16 of those. As many names as the longest number has, for each
 * bracket. */
static inline int fuzz_list_passed(const char *text) {
    size_t names = 1, digits = 0, longest = 0, brackets = 0, len = 0;
    for (; text[len]; len++) {
        if (text[len] < '0' || text[len] > '9')
            digits = 0;
        else if (digits > 0 || text[len] > '0') /* zeros in front add none */
            digits++;
        longest = digits > longest ? digits : longest;
        brackets += text[len] == '[';
    }
    for (size_t n = brackets * longest; n > 0 && names <= 1000; n--)
        names *= 10;
    return names > 1000 && len % 16 != 7;
}

#endif
