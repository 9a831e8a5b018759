/* SPDX-License-Identifier: Apache-2.0 */
/* main_loop.h - the life of one manager, for ddictd. */
#ifndef DDICT_MANAGER_MAIN_LOOP_H
#define DDICT_MANAGER_MAIN_LOOP_H

#include "manager.h"

/* Serve until ddictd says stop. Called in the forked process; returns its exit code. */
int manager_run(const struct manager_setup *setup);

#endif
