/* SPDX-License-Identifier: Apache-2.0 */
/* process.c - read a field of /proc/PID/stat; proc(5) counts the fields from 1. */
#include "process.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FIELD_STATE  3
#define FIELD_PARENT 4
#define FIELD_BEGAN  22

/* Where field `number` begins in text[cap], which receives all; NULL: it is gone. */
static const char *field_find(pid_t pid, int number, char *text, size_t cap) {
    char path[64], *at;
    ssize_t n;
    int fd, i;

    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return NULL;
    n = read(fd, text, cap - 1);
    close(fd);
    text[n > 0 ? n : 0] = '\0';
    at = strrchr(text, ')'); /* ends the second one, which may have anything in it */
    for (i = 2; at && i < number; i++)
        at = strchr(at + 1, ' ');
    return at ? at + 1 : NULL;
}

static uint64_t stat_field(pid_t pid, int number) {
    char text[1024];
    const char *at = field_find(pid, number, text, sizeof text);
    return at ? strtoull(at, NULL, 10) : 0;
}

char process_state(pid_t pid) {
    char text[1024];
    const char *at = field_find(pid, FIELD_STATE, text, sizeof text);
    return at ? *at : 0;
}

pid_t process_parent(pid_t pid) {
    return (pid_t)stat_field(pid, FIELD_PARENT);
}

uint64_t process_began(pid_t pid) {
    return stat_field(pid, FIELD_BEGAN);
}
