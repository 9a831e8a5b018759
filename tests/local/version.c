/* SPDX-License-Identifier: Apache-2.0 */
/*
 * version.c - a client whose libddict is of another version (TEST_VERSION, TEST_PROTOCOL,
 * TEST_LAYOUT), as in an old image. Puts, gets and views; 0, or 1 and what ddict_errmsg() says.
 */
#include <base/versions.h>
#include <ddict.h>
#include <store/layout.h>
#include <wire/msg.h>

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#undef DDICT_VERSION_STRING
#define DDICT_VERSION_STRING TEST_VERSION
enum { OUR_PROTOCOL = PROTOCOL_VERSION, OUR_LAYOUT = LAYOUT_VERSION };
#undef PROTOCOL_VERSION
#define PROTOCOL_VERSION (OUR_PROTOCOL + TEST_PROTOCOL + 0u)
#undef LAYOUT_VERSION
#define LAYOUT_VERSION (OUR_LAYOUT + TEST_LAYOUT + 0u)
#include <wire/attach.c>

static int use(ddict_t *d) {
    struct ddict_view v;
    int rc = ddict_put(d, "old", 3, "value", 5, 0, -1);
    if (rc < 0 || (rc = ddict_view(d, "old", 3, &v, 0, -1)) < 0)
        return rc;
    rc = v.len == 5 && memcmp(v.data, "value", 5) == 0 ? 0 : -1;
    pid_t pid = fork(); /* with a view held */
    if (pid == 0)
        _exit(memcmp(v.data, "value", 5) != 0 || ddict_put(d, "child", 5, "x", 1, 0, -1) < 0);
    int status = 1;
    waitpid(pid, &status, 0);
    ddict_release(&v);
    return status == 0 ? rc : -1;
}

int main(void) {
    ddict_t *d;
    int rc = ddict_attach(&d, NULL, -1);
    if (rc == 0) {
        rc = use(d);
        ddict_detach(d);
    }
    puts(rc < 0 ? ddict_errmsg() : "as usual");
    return rc < 0;
}
