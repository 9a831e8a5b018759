/* SPDX-License-Identifier: Apache-2.0 */
/* load_npz.c - `ddict load` of a file of the kind npz. */
#include "load.h"

LOAD_TARGET(source_npz)
