/* SPDX-License-Identifier: Apache-2.0 */
/* option_list.c - print the rows of option_table.h, for tests: on each line who has it, and what it
 * is called there. */
#include <launch/option_table.h>

#include <stdio.h>

static void say(int is, const char *who, const char *what) {
    if (is && what)
        printf("%s %s\n", who, what);
}

int main(void) {
    for (enum option_id o = 0; o < OPTS; o++) {
        const struct option_row *row = &option_rows[o];
        int is_srun = (row->of & OF_SRUN) != 0, is_up = (row->of & OF_UP) != 0,
            is_run = (row->of & OF_RUN) != 0;

        say(is_srun, "srun", row->of_srun);
        say(is_srun, "srun", row->variable);
        say(is_up && (row->of & INTERNAL) == 0, "up", row->option);
        say(is_run && (row->of & INTERNAL) == 0, "run", row->option);
        say((row->of & OF_DDICTD) != 0, "ddictd", row->option);
        say(is_up || is_run || !is_srun, "variables", row->variable);
        say(1, "site", row->word);
    }
    return 0;
}
