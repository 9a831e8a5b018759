/* SPDX-License-Identifier: Apache-2.0 */
/* text_keep.h - texts that live as long as the process: settings borrow them. */
#ifndef DDICT_LAUNCH_TEXT_KEEP_H
#define DDICT_LAUNCH_TEXT_KEEP_H

#include <stddef.h>

/* A copy of the text, the same one for equal texts. NULL without memory. */
const char *text_keep(const char *text);
/* Free all copies. No settings may borrow one any more. How many there were. */
size_t text_keep_clear(void);

#endif
