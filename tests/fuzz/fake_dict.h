/* SPDX-License-Identifier: Apache-2.0 */
/* fake_dict.h - the calls of ddict.h that a load makes, on a table in this process. */
#ifndef DDICT_TESTS_FAKE_DICT_H
#define DDICT_TESTS_FAKE_DICT_H

#include <stddef.h>
#include <stdint.h>

extern uint64_t fake_dict_value_max; /* larger values are refused */
void fake_dict_clear(void);
/* Number of items whose keys are not the load's own (tuples "ddict.load"), and the bytes of their
 * values. */
uint64_t fake_dict_items(uint64_t *bytes);

#endif
