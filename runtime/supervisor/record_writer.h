/* SPDX-License-Identifier: Apache-2.0 */
/* record_writer.h - writes lines to files of the user, one after another. */
#ifndef DDICT_SUPERVISOR_RECORD_WRITER_H
#define DDICT_SUPERVISOR_RECORD_WRITER_H

#include "supervisor.h"

enum written_file { WRITE_RECORD, WRITE_SUMMARY };
/* Another node wrote to these files before us, and may have ended within a line. */
void record_writer_follows(struct supervisor *s);
int record_writer_init(struct supervisor *s);
/* Takes over text, and drops it where no such file was asked for. */
void record_writer_write(struct supervisor *s, enum written_file file, char *text, size_t len);
/* The last line of this file was given: what comes late (a connection that was refused) is dropped. */
void record_writer_close(struct supervisor *s, enum written_file file);
void record_writer_reap(struct supervisor *s); /* SIGCHLD */
bool record_writer_is_busy(const struct supervisor *s);
/* a line of the record could not be written, and the user was told */
bool record_writer_has_failed(const struct supervisor *s);
void record_writer_late(struct supervisor *s); /* warn if it is still busy */
void record_writer_end(struct supervisor *s);

#endif
