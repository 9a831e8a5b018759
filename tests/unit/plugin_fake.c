/* SPDX-License-Identifier: Apache-2.0 */
/* plugin_fake.c - `ddict` as a shell script, and a process that answers as ddictd. */
#include "plugin_fake.h"

#include "launch_test.h"
#include <place/gpu_blob.h>
#include <wire/attach.h>

#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

char fake_word[192];
static char folder[140], fake[160];

/* What it was asked goes to the file `asked`; $FAKE says how it behaves. */
static const char script[] =
    "#!/bin/sh\n"
    "echo \"$*\" >>\"${0%/*}/asked\"\n"
    "case \" $* \" in *' --step='*) step=1 ;; *) step= ;; esac\n"
    "case ${FAKE-ready} in\n"
    "error) echo 'ddict1 error no room on n1'; exit 1 ;;\n"
    "silent) exit 1 ;;\n"
    "killed) kill -9 $$ ;;\n"
    "exists) echo 'ddict1 exists id=00 managers=2 nodes=1 mem=1' ;;\n"
    /* nothing of ours goes on to what stands for srun */
    "watched*) [ ! -e /proc/$$/fd/3 ] || exit 9\n"
    "    sleep ${FAKE#watched} </dev/null >/dev/null 2>&1 & echo $! >\"${0%/*}/srun\"\n"
    "    echo \"ddict1 ready name=x srun=$!/$(cut -d' ' -f22 /proc/$!/stat) id=00 script=watched\" "
    ";;\n"
    "named*) echo \"ddict1 ready name=x srun=${FAKE#named} id=00 script=watched\" ;;\n"
    "unwatched) sleep 60 </dev/null >/dev/null 2>&1 & echo $! >\"${0%/*}/srun\"; echo 'ddict1 "
    "ready name=x id=00' ;;\n"
    "warn) echo 'a prolog prints'; echo 'ddict1 warn no record: read only'; echo 'ddict1 ready "
    "name=x' ;;\n"
    "late) sleep 0.3; echo 'ddict1 ready name=x' ;;\n"
    "*) echo noise >&2; echo 'ddict1 ready name=x id=00 managers=2 nodes=1 mem=1' ;;\n"
    "esac\n"
    "[ -n \"$step\" ] || exit 0\n"
    "while read -r line; do :; done\n"
    "[ \"${FAKE-}\" != lost ] || { echo 'ddict1 error node n2 is lost'; exit 1; }\n"
    "echo 'ddict1 report {}'; echo 'ddict1 summary 2 managers: 5 keys'; echo 'ddict1 end'\n";

void fake_make(void) {
    FILE *f;

    snprintf(folder, sizeof folder, "%s/ddict-plugin.XXXXXX",
             getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(fake, sizeof fake, "%s/ddict", folder);
    snprintf(fake_word, sizeof fake_word, "ddict=%s", fake);
    f = fopen(fake, "w");
    ck_assert_ptr_nonnull(f);
    fputs(script, f);
    fclose(f);
    chmod(fake, 0755);
}

void fake_remove(void) {
    char path[160];

    snprintf(path, sizeof path, "%s/asked", folder);
    unlink(path);
    unlink(fake);
    rmdir(folder);
}

const char *asked(void) {
    static char text[65536];
    char path[160];
    size_t n = 0;
    FILE *f;

    snprintf(path, sizeof path, "%s/asked", folder);
    f = fopen(path, "r");
    if (f) {
        n = fread(text, 1, sizeof text - 1, f);
        fclose(f);
        unlink(path);
    }
    text[n] = '\0';
    return text;
}

/* Four GPUs: 0 and 1 near cpus 4-7, 2 and 3 near cpus 0-3. */
static int gpus_make(void) {
    struct gpu_map m = {.gpus = 4, .areas = 2, .area = calloc(2, sizeof *m.area)};
    int fd = memfd_create("gpus", MFD_CLOEXEC), g;
    size_t len;
    void *blob;

    for (g = 0; g < 4; g++) {
        m.gpu[g] = (struct gpu){
            .vendor = GPU_NVIDIA, .visible = GPU_VISIBLE_UNKNOWN, .numa = g < 2, .tiles = 1};
        snprintf(m.gpu[g].pci, sizeof m.gpu[g].pci, "0000:0%d:00.0", g);
        m.area[0].distance[g] = g < 2 ? 320 : 160;
        m.area[1].distance[g] = g < 2 ? 160 : 320;
    }
    for (g = 0; g < 8; g++) {
        cpus_add(&m.area[g / 4].cpus, g);
        cpus_add(&m.allowed, g);
    }
    if (gpu_map_pack(&m, &blob, &len) < 0 || write(fd, blob, len) != (ssize_t)len)
        abort();
    return fd;
}

/* What ddictd says to the tasks. Rank 99 asks in vain. */
static void dictionary_serve(int listener) {
    int gpus = gpus_make();

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;) {
        int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        struct attach_msg m, r;

        if (fd >= 0 && attach_recv(fd, &m, NULL, 0, 5000) >= 0) {
            attach_msg_init(&r, (enum attach_type)m.type);
            snprintf(r.text, sizeof r.text, "10.9.8.7 4711");
            if (m.type == ATTACH_MEET && m.manager == 99) {
                r.status = -ETIMEDOUT;
                snprintf(r.text, sizeof r.text, "rank 0 of step %.20s was not started", m.step);
            }
            attach_send(fd, &r, &gpus, m.type == ATTACH_GPUS);
        }
        if (fd >= 0)
            close(fd);
    }
}

static pid_t servers[64]; /* by descriptor */

int dictionary_begin(uint32_t job, const char *last) {
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    int n =
        snprintf(a.sun_path + 1, sizeof a.sun_path - 1, "ddict/%u.%u.%s/n1", geteuid(), job, last);

    ck_assert_int_eq(bind(fd, (struct sockaddr *)&a,
                          (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n)),
                     0);
    ck_assert_int_eq(listen(fd, 64), 0);
    ck_assert_int_lt(fd, 64);
    servers[fd] = fork();
    if (servers[fd] == 0)
        dictionary_serve(fd);
    return fd;
}

void dictionary_end(int fd) {
    kill(servers[fd], SIGKILL);
    waitpid(servers[fd], NULL, 0);
    close(fd);
}

const char *fake_folder(void) {
    return folder;
}
