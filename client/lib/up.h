/* SPDX-License-Identifier: Apache-2.0 */
/*
 * up.h - the dictionaries that this process has made (ddict_up()), for the other files of libddict.
 *
 *     begun --ready--> up, in the list --ddict_down(), exit--> ending --> freed
 *       \--failed, cancelled--> freed
 *
 * A forked child has none: it closes its copies of the pipes by which a dictionary ends.
 */
#ifndef DDICT_LIB_UP_H
#define DDICT_LIB_UP_H

struct ddict_start;

/* Take the dictionary of that name out of the list (NULL: the one that was made last), so that this
 * thread ends it; NULL: this process has made none. */
struct ddict_start *up_take(const char *name);
/* End it, wait until nothing of it is left, and free u. 0, or DDICT_ELOST or -EIO with the sentence:
 * it has ended, but not well. -ETIMEDOUT: it is in the list again, and ends. */
int up_end(struct ddict_start *u, int timeout_ms);

/* For fork(): no pipe may be made meanwhile. */
void ups_lock_take(void);
void ups_lock_give(void);
void ups_forget(void); /* in the child */

#endif
