/* SPDX-License-Identifier: Apache-2.0 */
/* load_fasta.c - `ddict load` of a file of the kind fasta. */
#include "load.h"

LOAD_TARGET(source_fasta)
