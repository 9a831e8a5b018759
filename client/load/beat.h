/* SPDX-License-Identifier: Apache-2.0 */
/*
 * beat.h - the leader's word to its workers (load.h: RUN), put again every LOAD_BEAT_MS, so that
 * who reads it knows that the leader lives. Main thread of the leader only.
 */
#ifndef DDICT_LOAD_BEAT_H
#define DDICT_LOAD_BEAT_H

/* From now on the leader says this: wait, go ID g, ok, failed SENTENCE. Puts it at once. 0 or a
 * negative code. */
int beat_say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Wait ms milliseconds at most, put the beat where it is time, and take a signal, which ends the
 * load. 0, or -ECANCELED: the load has ended. */
int beat_tick(int ms);
/* The signal that ended the load; 0: none. */
int beat_signal(void);

#endif
