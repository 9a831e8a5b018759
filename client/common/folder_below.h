/* SPDX-License-Identifier: Apache-2.0 */
/* folder_below.h - make folders inside a folder that others may write to, too. */
#ifndef DDICT_COMMON_FOLDER_BELOW_H
#define DDICT_COMMON_FOLDER_BELOW_H

/*
 * Open the folder that holds path's last component, and make the folders of path that are missing;
 * *name is the last component. path is relative to folder (a descriptor, or AT_FDCWD), without
 * empty components and "..". No symbolic link is followed, so others who may write to folder cannot
 * redirect us. Returns a descriptor, which the caller closes, or a negated errno: -ENOTDIR or
 * -ELOOP if a component is no folder.
 */
int folder_below_open(int folder, const char *path, const char **name);

#endif
