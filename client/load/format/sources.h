/* SPDX-License-Identifier: Apache-2.0 */
/* sources.h - the kinds of sources, for their table in sources.c. */
#ifndef DDICT_LOAD_FORMAT_SOURCES_H
#define DDICT_LOAD_FORMAT_SOURCES_H

#include "source.h"

extern const struct source_kind source_tar, source_zip, source_dir, source_idx, source_npy,
    source_npz, source_lines, source_fasta, source_s3;

/* Whether the path ends in one of the words (separated by blanks), alone or followed by .gz, .zst,
 * .bz2 or .xz. Upper or lower case. */
bool path_ends(const char *path, const char *words);
bool text_is_utf8(const uint8_t *text, size_t len); /* as Python's strict decoder has it */

/* The kind of the source text; NULL with the sentence set. as: the kind's name if the user said it,
 * or NULL. */
const struct source_kind *source_find(const char *text, const char *as);
const struct source_kind *source_named(const char *name); /* NULL: there is none */
/* What changes when the source changes (source.h), into stamp. 0 or a negative code with the
 * sentence set. */
int source_stamp(const struct source_kind *kind, const char *text, char *stamp, size_t cap);
void sources_names(char *text, size_t cap); /* for --help */

#endif
