/* SPDX-License-Identifier: Apache-2.0 */
/* batch_writer.h - a sink: the records of a unit, put into the dictionary in batches. */
#ifndef DDICT_LOAD_BATCH_WRITER_H
#define DDICT_LOAD_BATCH_WRITER_H

#include <stdint.h>

struct sink;

struct sink *sink_new(void); /* NULL without memory */
void sink_free(struct sink *s);
/* Read unit n into the dictionary. 0, or negative: the load ends. */
int sink_unit(struct sink *s, uint64_t n);

#endif
