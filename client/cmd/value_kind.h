/* SPDX-License-Identifier: Apache-2.0 */
/* value_kind.h - what a value is, by its tag: doc/FORMAT.md. */
#ifndef DDICT_CMD_VALUE_KIND_H
#define DDICT_CMD_VALUE_KIND_H

static inline const char *value_kind(unsigned tag) {
    static const char *const kind[] = {"bytes", "bytearray", "pickle", "buffers", "str",
                                       "int",   "float",     "array",  "bool"};
    return tag < sizeof kind / sizeof kind[0] ? kind[tag] : "other";
}

#endif
