/* SPDX-License-Identifier: Apache-2.0 */
/* load_tar.c - `ddict load` of a file of the kind tar. */
#include "load.h"

LOAD_TARGET(source_tar)
