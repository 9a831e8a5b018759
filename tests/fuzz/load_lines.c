/* SPDX-License-Identifier: Apache-2.0 */
/* load_lines.c - `ddict load` of a file of the kind lines. */
#include "load.h"

LOAD_TARGET(source_lines)
