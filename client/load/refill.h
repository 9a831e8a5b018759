/* SPDX-License-Identifier: Apache-2.0 */
/*
 * refill.h - `ddict-load --refill=OWNER[,OWNER...]`: managers lost their keys with a node and began
 * anew, empty; put again what loaded sets had there. ddictd starts it
 * (runtime/supervisor/refill_child.h).
 *
 * Descriptions of sets come from their copies on other nodes (set_key.h). They say which items were
 * lost; their sources are read for these alone. What has changed since it was loaded is not put: of
 * folders each file that has, of other sources the whole set if one has. Nothing that is there is
 * replaced: of two sets that had an item the one that was loaded later counts, and so does what
 * programs have put since.
 */
#ifndef DDICT_LOAD_REFILL_H
#define DDICT_LOAD_REFILL_H

#include <stdint.h>

/* owners: as on the command line; the_load is attached. Prints {"sets": [{"set", "items", "bytes",
 * "lost", "error", "final"}], "items", "bytes", "seconds"} on stdout, "error" where there is one,
 * and "final": true where another try will not help. The exit code: 1, some set's items are not all
 * there. */
int refill_run(const char *owners);
/* For a load of the_load.set, which is complete: put again what is missing of this set where keys
 * began anew, *items. A node may have been lost while it was loaded, or a refill of ddictd failed.
 * 0 or a negative code with the sentence set, LOAD_HANGS among them. */
int own_set_refill(uint64_t *items);

#endif
