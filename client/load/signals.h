/* SPDX-License-Identifier: Apache-2.0 */
/* signals.h - signals that end a load, for its main thread alone. */
#ifndef DDICT_LOAD_SIGNALS_H
#define DDICT_LOAD_SIGNALS_H

void signals_block(void);
/* Wait up to ms milliseconds. Returns the signal that came, or 0. */
int signals_wait(int ms);

#endif
