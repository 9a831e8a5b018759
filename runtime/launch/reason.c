/* SPDX-License-Identifier: Apache-2.0 */
/* reason.c - the sentence in what srun and slurmstepd wrote. */
#include "reason.h"

#include <base/error.h>

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int line_is_noise(const char *line) {
    static const char *const noise[] = {"Job step aborted",
                                        "CANCELLED AT",
                                        "Exited with exit code",
                                        "Terminated",
                                        "Killed",
                                        "forcing job termination",
                                        "Timed out waiting for job step to complete",
                                        "launch failed"};
    size_t i;

    for (i = 0; i < sizeof noise / sizeof *noise; i++)
        if (strstr(line, noise[i]))
            return 1;
    /* our own log: what ends a dictionary is said by `error` */
    return *line == '\0' || strncmp(line, "ddict: ", 7) == 0;
}

/* "[2026-11-22T07:45:46.022] error: text" -> "error: text", else NULL. slurmd's LogTimeFormat says
 * what is in the brackets. */
static const char *time_skip(const char *line) {
    const char *rest = *line == '[' ? strstr(line, "] ") : NULL;

    return rest && (strncmp(rest + 2, "error: ", 7) == 0 || strncmp(rest + 2, "fatal: ", 7) == 0)
               ? rest + 2
               : NULL;
}

/* "slurmstepd-n1: error: text" -> "text" */
static const char *prefix_skip(const char *line) {
    static const char *const who[] = {"srun", "slurmstepd", "error", "fatal"};
    const char *rest = time_skip(line);
    size_t i;

    if (rest)
        return prefix_skip(rest);
    for (i = 0; i < sizeof who / sizeof *who; i++)
        if (strncmp(line, who[i], strlen(who[i])) == 0) {
            size_t n = strcspn(line, ": ");

            if (line[n] == ':' && line[n + 1] == ' ')
                return prefix_skip(line + n + 2);
        }
    return line;
}

int reason_is_slurm(const char *line) {
    return strncmp(line, "srun: ", 6) == 0 || strncmp(line, "slurmstepd", 10) == 0 ||
           time_skip(line);
}

/* "*** STEP 7.1 ON n1 CANCELLED AT 2026-11-21T10:00:00 DUE TO TIME LIMIT ***": who cancels a step
 * kills its tasks, the cause is here. Since 25.05 scancel's is "DUE to SIGNAL Terminated", which
 * says no more than that it was cancelled. */
static void cancel_read(const char *line, char *what, size_t cap) {
    char step[64], due[64] = "";
    const char *reason = strstr(line, " DUE TO ");
    size_t i;

    if (sscanf(line, "*** STEP %63s ON %*s CANCELLED AT ", step) != 1 ||
        !strstr(line, " CANCELLED AT "))
        return;
    if (reason)
        snprintf(due, sizeof due, " %.*s",
                 (int)strcspn(reason + 1, ",*") - (reason[1 + strcspn(reason + 1, ",*")] == '*'),
                 reason + 1);
    for (i = 0; due[i] != '\0'; i++)
        due[i] = (char)tolower((unsigned char)due[i]);
    snprintf(what, cap, "Slurm's step %s was cancelled%s", step, due);
}

/* "n1: task 0: Killed", "n[1-2]: tasks 0-1: Exited with exit code 2" */
static int is_task_gone(const char *words) {
    size_t host = strcspn(words, " :");

    words += host;
    return host > 0 && (strncmp(words, ": task ", 7) == 0 || strncmp(words, ": tasks ", 8) == 0) &&
           strstr(words + 7, ": ");
}

void reason_read(const char *text, size_t len, char *why, size_t cap) {
    char *copy = strndup(text, len), *line, *save;
    char last[DD_ERRMSG_MAX] = "", cancelled[160] = "";
    size_t used = 0, lines = 0;
    char task[160] = "";

    why[0] = '\0';
    if (!copy)
        return;
    for (line = strtok_r(copy, "\r\n", &save); line; line = strtok_r(NULL, "\r\n", &save)) {
        const char *words = prefix_skip(line);

        snprintf(last, sizeof last, "%s", words);
        cancel_read(words, cancelled, sizeof cancelled);
        if (task[0] == '\0' && is_task_gone(words))
            snprintf(task, sizeof task, "%s", words);
        if (line_is_noise(words) || strstr(why, words) || lines == 3)
            continue;
        used += (size_t)snprintf(why + used, cap - used, "%s%s", lines > 0 ? "; " : "", words);
        if (used >= cap)
            used = cap - 1;
        lines++;
    }
    if (lines == 0)
        snprintf(why, cap, "%s", cancelled[0] != '\0' ? cancelled : task[0] != '\0' ? task : last);
    else if (task[0] != '\0')
        snprintf(why + used, cap - used, " (%s)", task);
    free(copy);
}

int reason_cancelled(const char *text, size_t len, char *what, size_t cap) {
    char *copy = strndup(text, len), *line, *save;

    what[0] = '\0';
    for (line = copy ? strtok_r(copy, "\r\n", &save) : NULL; line;
         line = strtok_r(NULL, "\r\n", &save))
        cancel_read(prefix_skip(line), what, cap);
    free(copy);
    return what[0] != '\0';
}

/* "Job step aborted: Waiting up to 7 seconds for job step to finish.": also of a job that has ended
 * well, as is the SIGTERM ("CANCELLED AT"). A limit that cancels a step says which ("DUE TO"). */
static int line_is_quiet(const char *line) {
    return strncmp(line, "Job step aborted", 16) == 0 || strncmp(line, "ddict: ", 7) == 0 ||
           (strncmp(line, "*** STEP ", 9) == 0 && strstr(line, " CANCELLED AT ") &&
            !strstr(line, " DUE TO "));
}

int reason_is_quiet(const char *text, size_t len) {
    char *copy = strndup(text, len), *line, *save;
    int quiet = copy != NULL;

    for (line = copy ? strtok_r(copy, "\r\n", &save) : NULL; line;
         line = strtok_r(NULL, "\r\n", &save))
        quiet &= line_is_quiet(prefix_skip(line));
    free(copy);
    return quiet;
}

int reason_task_gone(const char *text, size_t len) {
    char *copy = strndup(text, len), *line, *save;
    int gone = 0;

    for (line = copy ? strtok_r(copy, "\r\n", &save) : NULL; line;
         line = strtok_r(NULL, "\r\n", &save))
        gone |= is_task_gone(prefix_skip(line));
    free(copy);
    return gone;
}
