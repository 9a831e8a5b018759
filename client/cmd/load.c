/* SPDX-License-Identifier: Apache-2.0 */
/* load.c - `ddict load`: exec ddict-load, which is a program of its own (client/load/main.c says
 * why). */
#include "cmd.h"
#include "verbs.h"
#include <base/verb.h>
#include <launch/command.h>

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int cmd_load(int argc, char **argv) {
    char self[PATH_MAX], path[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    self[n > 0 ? n : 0] = 0;
    /* in a build folder our executable is in .libs */
    if (n <= 0 || (command_beside(self, "../ddict-load", path, sizeof path) != 0 &&
                   command_beside(self, "ddict-load", path, sizeof path) != 0 &&
                   command_find(DDICT_BINDIR "/ddict-load", path, sizeof path) != 0)) {
        verb_say("ddict-load is neither beside %s nor in %s; was it built without libarchive?",
                 n > 0 ? self : "ddict", DDICT_BINDIR);
        return EXIT_FAILED;
    }
    argv[0] = path;
    execv(path, argv);
    verb_say("%s: %s", path, strerror(errno));
    return EXIT_FAILED;
}
