/* SPDX-License-Identifier: Apache-2.0 */
/* plugin_fake.h - what the plugin meets when plugin_host.c plays Slurm: a `ddict` that behaves as
 * $FAKE says, and dictionaries that answer tasks. */
#ifndef DDICT_TESTS_PLUGIN_FAKE_H
#define DDICT_TESTS_PLUGIN_FAKE_H

#include <stdint.h>

extern char fake_word[192]; /* "ddict=PATH", for the plugin's line in plugstack.conf */

void fake_make(void);
void fake_remove(void);
const char *fake_folder(void);
/* What was asked of `ddict` since the last call. */
const char *asked(void);

/* A dictionary with that last part of its name, on node n1, with four GPUs there; a descriptor. */
int dictionary_begin(uint32_t job, const char *last);
void dictionary_end(int fd);

#endif
