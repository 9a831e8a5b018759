/* SPDX-License-Identifier: Apache-2.0 */
/* load_zip.c - `ddict load` of a file of the kind zip. */
#include "load.h"

LOAD_TARGET(source_zip)
