/* SPDX-License-Identifier: Apache-2.0 */
/* npy.h - arrays of the Python binding (doc/FORMAT.md, section 4) as files that numpy.load() reads.
 * */
#ifndef DDICT_COMMON_NPY_H
#define DDICT_COMMON_NPY_H

#include "key_text.h"

/*
 * The head of such a file into out; the value's last *elements bytes follow it. torch's bfloat16,
 * which numpy has not, is called raw bytes. 0, -ENOMEM, or -EINVAL when the value is no array.
 */
int npy_head(struct bytes *out, const void *value, size_t len, size_t *elements);
/* For people: "array <f4 (3, 4)", 0-terminated. Same results. */
int npy_show(struct bytes *out, const void *value, size_t len);

#endif
