/* SPDX-License-Identifier: Apache-2.0 */
/* socket_files.h - socket files that `ddict socket` made and lends us. */
#ifndef DDICT_SUPERVISOR_SOCKET_FILES_H
#define DDICT_SUPERVISOR_SOCKET_FILES_H

#include "supervisor.h"

struct socket_file;
/* Calls accept() also for a listening socket that is bound to the file `name` of the folder. Takes
 * over both descriptors when it returns 0. */
int socket_file_open(struct socket_file **out, struct supervisor *s, int listening, int folder,
                     const char *name, void (*accept)(struct supervisor *s, int listening));
void socket_file_close(struct socket_file *f); /* removes the file; NULL is allowed */

#endif
