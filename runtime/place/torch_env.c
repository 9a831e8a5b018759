/* SPDX-License-Identifier: Apache-2.0 */
/* torch_env.c - which of torch's variables the user has set. */
#include "torch_env.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const torch_names[TORCH_VARS] = {[TORCH_ADDR] = "MASTER_ADDR",
                                             [TORCH_PORT] = "MASTER_PORT",
                                             [TORCH_RANK] = "RANK",
                                             [TORCH_LOCAL_RANK] = "LOCAL_RANK",
                                             [TORCH_WORLD_SIZE] = "WORLD_SIZE",
                                             [TORCH_LOCAL_WORLD_SIZE] = "LOCAL_WORLD_SIZE",
                                             [TORCH_GROUP_RANK] = "GROUP_RANK"};

int torch_is_users(const char *mark, const char *name, const char *value) {
    size_t n = strlen(name), len;

    if (!value)
        return 0;
    len = strlen(value);
    for (; mark && *mark != '\0'; mark += strcspn(mark, " "), mark += *mark == ' ')
        if (strncmp(mark, name, n) == 0 && mark[n] == '=' && strcspn(mark + n + 1, " ") == len &&
            strncmp(mark + n + 1, value, len) == 0)
            return 0;
    return 1;
}

void torch_mark_add(char mark[TORCH_MARK_MAX], const char *name, const char *value) {
    size_t n = strlen(mark);

    if (n + strlen(name) + strlen(value) + 3 <= TORCH_MARK_MAX)
        snprintf(mark + n, TORCH_MARK_MAX - n, "%s%s=%s", n > 0 ? " " : "", name, value);
}

void torch_env_forget(void) {
    const char *mark = getenv(TORCH_MARK);
    int i;

    for (i = 0; mark && i < TORCH_VARS; i++)
        if (!torch_is_users(mark, torch_names[i], getenv(torch_names[i])))
            unsetenv(torch_names[i]);
    unsetenv(TORCH_MARK);
}
