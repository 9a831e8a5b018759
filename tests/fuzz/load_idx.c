/* SPDX-License-Identifier: Apache-2.0 */
/* load_idx.c - `ddict load` of a file of the kind idx. */
#include "load.h"

LOAD_TARGET(source_idx)
