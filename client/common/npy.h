/* SPDX-License-Identifier: Apache-2.0 */
/* npy.h - arrays of the Python binding (doc/FORMAT.md, section 4) as files that numpy.load() reads.
 * */
#ifndef DDICT_COMMON_NPY_H
#define DDICT_COMMON_NPY_H

#include "key_text.h"

/*
 * Write the head of such a file to out; the last *elements bytes of the value follow it in the
 * file. numpy has no bfloat16: elements of that type are declared as raw bytes. 0, -ENOMEM, or
 * -EINVAL if the value is no array.
 */
int npy_head(struct bytes *out, const void *value, size_t len, size_t *elements);
/* For people: "array <f4 (3, 4)", 0-terminated. Same results as npy_head(). */
int npy_show(struct bytes *out, const void *value, size_t len);

#endif
