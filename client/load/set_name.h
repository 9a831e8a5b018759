/* SPDX-License-Identifier: Apache-2.0 */
/* set_name.h - of which kind the sources of a load are, and what their set is called. */
#ifndef DDICT_LOAD_SET_NAME_H
#define DDICT_LOAD_SET_NAME_H

#define SET_NAME_MAX 200 /* bytes */

/*
 * Find the kind of each source of the_load (origins[]) and choose the name of the set (set): that
 * of --set, else the prefix, else the first source's name without folder and ending. Called once,
 * by the leader. 0, or -EINVAL or what source_find() returns, with the sentence set.
 */
int sources_look(void);

#endif
