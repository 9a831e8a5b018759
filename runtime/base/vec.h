/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vec.h - an array that grows: a pointer and a capacity in its owner's struct, both 0 at first. The
 * owner counts what is in it, and frees it with free().
 *
 *     if (VEC_ROOM(&t->name, &t->cap, t->n + 1, 16) < 0)
 *         return -ENOMEM;
 *     t->name[t->n++] = name;
 */
#ifndef DDICT_BASE_VEC_H
#define DDICT_BASE_VEC_H

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* vec: address of the pointer to elements of `size` bytes. Have room for `want` of them: at least
 * twice as many as now, at least `first` (> 0). 0, or -ENOMEM, and then all is as it was. What is
 * new of it has any content. */
static inline int vec_room(void *vec, size_t *cap, size_t want, size_t size, size_t first) {
    size_t more = *cap > 0 ? *cap : first, bytes;
    void *old, *grown = NULL;
    if (want <= *cap)
        return 0;
    while (more < want && more <= SIZE_MAX / 2)
        more *= 2;
    memcpy(&old, vec, sizeof old); /* whatever it points to */
    if (more >= want && !__builtin_mul_overflow(more, size, &bytes))
        grown = realloc(old, bytes);
    if (!grown)
        return -ENOMEM;
    memcpy(vec, &grown, sizeof grown);
    *cap = more;
    return 0;
}

#define VEC_ROOM(vec, cap, want, first) vec_room((vec), (cap), (want), sizeof **(vec), (first))

#endif
