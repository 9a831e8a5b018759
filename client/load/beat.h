/* SPDX-License-Identifier: Apache-2.0 */
/*
 * beat.h - the leader's beat to its workers (load.h: RUN): its state, put again every LOAD_BEAT_MS,
 * so that a worker that reads it knows that the leader lives. Only for the leader's main thread.
 */
#ifndef DDICT_LOAD_BEAT_H
#define DDICT_LOAD_BEAT_H

/* Set the leader's state (wait, go ID UNITS KIND, ok, failed SENTENCE) and put it at once. 0 or a
 * negative code. */
int beat_say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Wait at most ms milliseconds, put the beat if it is due, and take a signal, which ends the load.
 * 0, or -ECANCELED: the load has ended. */
int beat_tick(int ms);
/* The signal that ended the load; 0: none. */
int beat_signal(void);

#endif
