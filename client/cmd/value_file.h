/* SPDX-License-Identifier: Apache-2.0 */
/* value_file.h - what people read of a value, as `ddict get` writes it. */
#ifndef DDICT_CMD_VALUE_FILE_H
#define DDICT_CMD_VALUE_FILE_H

#include <ddict.h>

#include <stdbool.h>

/* Tags of the Python binding, doc/FORMAT.md */
enum {
    TAG_BYTES = 0,
    TAG_PICKLE = 2,
    TAG_BUFFERS = 3,
    TAG_STR = 4,
    TAG_INT = 5,
    TAG_FLOAT = 6,
    TAG_ARRAY = 7,
    TAG_BOOL = 8
};

/*
 * Write the value to fd: a float and a bool as text, an array as a file that numpy.load() reads, any other
 * value as its bytes. terminal: an array's type and shape instead, and a newline at the end. raw:
 * the stored bytes of all values. 0 or a negated errno.
 */
int value_file_write(int fd, const struct ddict_view *v, bool raw, bool terminal);

#endif
