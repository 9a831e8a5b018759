/* SPDX-License-Identifier: Apache-2.0 */
/* complain.h - how a process of ddict-load tells the user of an error. */
#ifndef DDICT_LOAD_COMPLAIN_H
#define DDICT_LOAD_COMPLAIN_H

/*
 * Write sentence as a line on stderr; with --json, as an object {"error", "code"} on stdout, too
 * (with --report: only there). The sentence may come from another process; its control characters
 * are removed. It becomes the sentence of code in this thread (dd_errmsg()).
 */
void load_complain(const char *sentence, int code);

#endif
