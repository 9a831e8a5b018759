/* SPDX-License-Identifier: Apache-2.0 */
/*
 * log.h - lines on stderr: "ddict: PART: text". An error is logged once, where its cause is
 * understood; a change of state once on the way in and once on the way out. Only errors and
 * warnings by default; $DDICT_LOG=info or debug for more.
 */
#ifndef DDICT_BASE_LOG_H
#define DDICT_BASE_LOG_H

enum log_level { LOG_LVL_ERROR, LOG_LVL_WARN, LOG_LVL_INFO, LOG_LVL_DEBUG };
/* part: static text, e.g. "manager 3 on n1" is set with log_part() */
void log_init(const char *part);
void log_part(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Signal safe. */
const char *log_part_name(void);
void log_line(enum log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
#define log_error(...) log_line(LOG_LVL_ERROR, __VA_ARGS__)
#define log_warn(...)  log_line(LOG_LVL_WARN, __VA_ARGS__)
#define log_info(...)  log_line(LOG_LVL_INFO, __VA_ARGS__)
#define log_debug(...) log_line(LOG_LVL_DEBUG, __VA_ARGS__)

#endif
