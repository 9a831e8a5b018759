/* SPDX-License-Identifier: Apache-2.0 */
/* load_npy.c - `ddict load` of a file of the kind npy. */
#include "load.h"

LOAD_TARGET(source_npy)
