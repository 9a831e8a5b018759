/* SPDX-License-Identifier: Apache-2.0 */
/* remote.c - in the task, as the user, before its program: the dictionary's name, also where srun's --export left it out. */
#include <unistd.h>

#include "plugin.h"

void remote_task(spank_t sp) {
    char name[64];

    if (options_of_step(sp) && dictionary_name(sp, geteuid(), name, sizeof name) == 0)
        spank_setenv(sp, "DDICT_NAME", name, 1);
}
