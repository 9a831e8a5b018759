/* SPDX-License-Identifier: Apache-2.0 */
/*
 * torch_env.h - the variables that torch's init_process_group("env://") reads, and which of them we
 * may change. Variables that the user set stay. The mark of a task lists those that we set, so that
 * a step, a job or a `ddict run` that is started within the task, and inherits both, can tell them
 * from the user's. libc only.
 */
#ifndef DDICT_PLACE_TORCH_ENV_H
#define DDICT_PLACE_TORCH_ENV_H

#include <stddef.h>

#define TORCH_MARK     "DDICT_TORCH_SET" /* "RANK=0 WORLD_SIZE=4 ...", what we set */
#define TORCH_MARK_MAX 512

enum {
    TORCH_ADDR,
    TORCH_PORT,
    TORCH_RANK,
    TORCH_LOCAL_RANK,
    TORCH_WORLD_SIZE,
    TORCH_LOCAL_WORLD_SIZE,
    TORCH_GROUP_RANK,
    TORCH_VARS
};
extern const char *const torch_names[TORCH_VARS];

/* Is it the user's? value: what it is, NULL for not set; mark: of the same environment, or NULL. */
int torch_is_users(const char *mark, const char *name, const char *value);
/* Add to a mark that begins as "". */
void torch_mark_add(char mark[TORCH_MARK_MAX], const char *name, const char *value);
/* Take what is ours out of the environment of this process. */
void torch_env_forget(void);

#endif
