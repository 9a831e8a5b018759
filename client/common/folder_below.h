/* SPDX-License-Identifier: Apache-2.0 */
/* folder_below.h - folders inside of one that others may write to, too. */
#ifndef DDICT_COMMON_FOLDER_BELOW_H
#define DDICT_COMMON_FOLDER_BELOW_H

/*
 * Open the folder of path, which is relative to folder (a descriptor, or AT_FDCWD), and make what
 * is missing of it; *name is the last component of path. No symbolic link is followed: whoever may
 * write to folder can not lead us elsewhere. path has no empty component and no "..". Returns a
 * descriptor, which is the caller's to close, or a negated errno: -ENOTDIR or -ELOOP where
 * something else than a folder is in the way.
 */
int folder_below_open(int folder, const char *path, const char **name);

#endif
