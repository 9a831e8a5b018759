/* SPDX-License-Identifier: Apache-2.0 */
/* main_loop.h - the life of one manager, for ddictd. */
#ifndef DDICT_MANAGER_MAIN_LOOP_H
#define DDICT_MANAGER_MAIN_LOOP_H

#include "manager.h"

/* Serve until ddictd says stop. Called in the forked process; returns its exit code. */
int manager_run(const struct manager_setup *setup);

/*
 * What manager_run() consists of, for tests that play a manager's clients: first manager_begin(), of
 * an m that is all zero; then manager_open(), 0 or a negative code with the sentence set;
 * manager_work() is what a turn does behind the lanes and the sockets, true if that was anything.
 * manager_close() frees what it has, but closes no descriptor of its own.
 */
void manager_begin(struct manager *m, const struct manager_setup *setup);
int manager_open(struct manager *m);
bool manager_work(struct manager *m);
void manager_close(struct manager *m);

#endif
