/* SPDX-License-Identifier: Apache-2.0 */
/* signals.h - signals for the main thread alone. */
#ifndef DDICT_LOAD_SIGNALS_H
#define DDICT_LOAD_SIGNALS_H

void signals_block(void);
/* Wait so long; the signal that came, or 0. */
int signals_wait(int ms);

#endif
