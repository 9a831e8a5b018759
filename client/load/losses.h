/* SPDX-License-Identifier: Apache-2.0 */
/* losses.h - managers whose keys were lost with a node and began anew, empty (--refill). */
#ifndef DDICT_LOAD_LOSSES_H
#define DDICT_LOAD_LOSSES_H

#include <stdbool.h>

/* Find them, after waiting while their keys are read again: their number, and which (anew: NULL, or
 * room for all managers); or a negative code with the sentence set. */
int losses_find(bool *anew);
/* Whether there are more than so many, or keys of one are read again: that is not waited for. */
bool losses_exceed(int known);

#endif
