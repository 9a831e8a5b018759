/* SPDX-License-Identifier: Apache-2.0 */
/* options.c - read the command lines of `ddict up` and `ddict run`: what each option is,
 * option_rows.h has. */
#include "options.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>

void options_usage(const char *verb) {
    int run = strcmp(verb, "ddict run") == 0;

    fputs(run ? "usage: ddict run [OPTION...] [-n N] [--] COMMAND [ARGUMENT...]\n"
                "Start a dictionary, run COMMAND with it, end it; the exit code is COMMAND's. In\n"
                "a Slurm job the managers run on all nodes of the job. Tasks of a step, and ranks\n"
                "of mpirun, that all call it share one dictionary.\n"
              : "usage: ddict up [OPTION...]\n"
                "Start a dictionary and print the variable that names it:\n"
                "  eval \"$(ddict up --managers=4 --mem=16G)\"\n"
                "It ends by `ddict down` or with the job.\n",
          stdout);
    option_help(stdout, run ? OF_RUN : OF_UP);
}

int options_parse(struct options *o, int argc, char **argv, const char *(*env)(const char *),
                  char *why, size_t cap) {
    unsigned of = is_run(o) ? OF_RUN : OF_UP;
    int words;

    if (settings_take_argv(&o->set, of, BY_OPTION, argc, argv, why, cap) < 0)
        return -EINVAL;
    words = optind;
    if (is_said(&o->set, OPT_HELP))
        return 0;
    if (settings_take_variables(&o->set, of, env, why, cap) < 0 ||
        settings_complete(&o->set, why, cap) < 0)
        return -EINVAL;
    if (is_said(&o->set, OPT_PLUGIN) && is_said(&o->set, OPT_STEP))
        settings_put(&o->set, OPT_FOREGROUND, 1);
    o->cmd = is_run(o) && words < argc ? argv + words : NULL;
    if (is_run(o) && !o->cmd)
        snprintf(why, cap, "no command: ddict run --managers=2 --mem=1G -- COMMAND");
    else if (!is_run(o) && words < argc)
        snprintf(why, cap, "unknown word %.60s", argv[words]);
    else if (is_said(&o->set, OPT_STEP) && o->set.of[OPT_JOBID].by != BY_OPTION)
        snprintf(why, cap, "--step=%s: needs --jobid", text_of(&o->set, OPT_STEP));
    else if (is_said(&o->set, OPT_WORKING_SET) && is_yes(&o->set, OPT_REFILL))
        snprintf(why, cap,
                 "--working-set and --refill: checkpoints are in no source, from which they "
                 "could be read again");
    else
        return 0;
    return -EINVAL;
}
