/* SPDX-License-Identifier: Apache-2.0 */
/*
 * socket.c - run a command with a socket file by which a container with its own network namespace
 * reaches the managers. We make the file, ddictd accepts on it, and this process execs the command.
 * The file is always removed:
 *
 *     the command ends, or is killed     ddictd sees it and removes the file
 *     ddictd ends, or is killed          it removes the file, or the watcher does: a process that
 *                                        sees both and ends with either
 *     both are killed, and the watcher   the next `ddict socket` of this user that makes a file in
 *                                        that folder
 */
#include "cmd.h"
#include "verbs.h"
#include <base/clock.h>
#include <base/defaults.h>
#include <base/error.h>
#include <base/verb.h>
#include <wire/attach.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const char socket_usage[] =
    "usage: ddict socket [OPTION...] [--] COMMAND [ARGUMENT...]\n"
    "Run COMMAND with a socket file of the dictionary, for a container that has a\n"
    "network of its own. The path of the file is in $DDICT_SOCKET and replaces\n"
    "{socket} in the arguments. If the container shows the file under another path,\n"
    "set DDICT_SOCKET to that path there. The file is removed when COMMAND ends.\n"
    "      --dir=FOLDER     where the file is made (default: $TMPDIR, else /tmp)\n" CMD_COMMON_USAGE
    "  srun --ddict-mem=4G ddict socket -- bwrap --unshare-net --ro-bind / / \\\n"
    "    --tmpfs /tmp --bind {socket} {socket} python3 train.py\n";

#define FILE_HEAD      "ddict-"
#define FILE_TAIL      ".sock"
#define MARK           "{socket}"
#define STALE_S        60 /* the maker of a younger file may not listen yet */
#define EXIT_NOT_RUN   126
#define EXIT_NOT_FOUND 127

struct lent {
    int folder, listening, conn;
    char name[32], path[4096];
};

static void file_remove(const struct lent *l) {
    unlinkat(l->folder, l->name, 0);
}

/* Remove this user's files that have no listener any more. */
static void stale_remove(const struct lent *l, const char *folder) {
    DIR *dir = opendir(folder);
    struct dirent *e;
    while (dir && (e = readdir(dir))) {
        struct stat st;
        char path[4096];
        size_t len = strlen(e->d_name);
        if (strncmp(e->d_name, FILE_HEAD, sizeof FILE_HEAD - 1) != 0 || len < sizeof FILE_TAIL ||
            strcmp(e->d_name + len - (sizeof FILE_TAIL - 1), FILE_TAIL) != 0 ||
            fstatat(l->folder, e->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISSOCK(st.st_mode) ||
            st.st_uid != geteuid() || st.st_mtime + STALE_S > time(NULL) ||
            (size_t)snprintf(path, sizeof path, "%s/%s", folder, e->d_name) >= sizeof path)
            continue;
        if (attach_file_is_dead(path))
            unlinkat(l->folder, e->d_name, 0);
    }
    if (dir)
        closedir(dir);
}

static int file_make(struct lent *l, const char *folder) {
    int rc = -EEXIST;
    char whole[4096];
    if (*folder != '/' && realpath(folder, whole))
        folder = whole; /* absolute: the command may change its folder */
    l->folder = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (l->folder < 0)
        return dd_error(-errno, "%s: %s", folder, strerror(errno));
    stale_remove(l, folder);
    for (int i = 0; i < 16 && rc == -EEXIST; i++) {
        uint64_t random;
        if (getrandom(&random, sizeof random, 0) != sizeof random)
            random = clock_ns();
        snprintf(l->name, sizeof l->name, FILE_HEAD "%010llx" FILE_TAIL,
                 (unsigned long long)(random & 0xffffffffffull));
        if ((size_t)snprintf(l->path, sizeof l->path, "%s/%s", folder, l->name) >= sizeof l->path)
            return dd_error(-ENAMETOOLONG, "%s: too long", folder);
        rc = l->listening = attach_listen_file(l->path);
    }
    return rc < 0 ? rc : 0;
}

static int file_lend(const struct lent *l, struct deadline *d) {
    struct attach_msg m;
    attach_msg_init(&m, ATTACH_LISTEN);
    snprintf(m.text, sizeof m.text, "%s", l->name);
    int fds[2] = {l->listening, l->folder};
    int rc = attach_send(l->conn, &m, fds, 2);
    if (rc == 0)
        rc = attach_recv_by(l->conn, &m, NULL, 0, d);
    if (rc == -ECONNRESET)
        return dd_error(DDICT_EPROTO,
                        "ddictd of this node takes no socket file; is it older than this command?");
    if (rc >= 0 && (rc = attach_version_check(&m)) == 0 && m.status < 0)
        rc = dd_error(m.status, "%s", m.text);
    return rc;
}

/* The watcher notices the end of the command (by its pidfd) and of ddictd (by the connection). It
 * is not a child of the command, because the command may wait for all its children. */
static void watcher_run(const struct lent *l, int pidfd) __attribute__((noreturn));
static void watcher_run(const struct lent *l, int pidfd) {
    static const int ignored[] = {SIGHUP,  SIGINT,  SIGQUIT, SIGTERM, SIGUSR1,
                                  SIGUSR2, SIGALRM, SIGTSTP, SIGPIPE};
    for (size_t i = 0; i < sizeof ignored / sizeof *ignored; i++)
        signal(ignored[i], SIG_IGN);
    int keep[3] = {l->conn, pidfd, l->folder}, null = open("/dev/null", O_RDWR);
    for (int i = 0; i < 3; i++) /* move them above 0..5, which are assigned next */
        keep[i] = fcntl(keep[i], F_DUPFD, 6);
    for (int i = 0; i < 3; i++) {
        dup2(null, i);
        dup2(keep[i], 3 + i);
    }
    if (syscall(SYS_close_range, 6u, ~0u, 0u) < 0) /* Linux before 5.9 has no close_range() */
        for (int i = 6; i < 4096; i++)
            close(i);
    struct pollfd p[2] = {{.fd = 3, .events = POLLRDHUP}, {.fd = 4, .events = POLLIN}};
    if (chdir("/") != 0)
        _exit(1);
    while (poll(p, 2, -1) < 0 && errno == EINTR) {
    }
    unlinkat(5, l->name, 0);
    _exit(0);
}

static int watcher_start(const struct lent *l) {
    int pidfd = (int)syscall(SYS_pidfd_open, getpid(), 0);
    if (pidfd < 0)
        return dd_error(-errno, "pidfd_open: %s", strerror(errno));
    pid_t pid = fork();
    if (pid == 0) {
        pid = fork();
        if (pid == 0)
            watcher_run(l, pidfd);
        _exit(pid < 0);
    }
    int status = 0, e = errno;
    close(pidfd);
    if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0)
        return dd_error(pid < 0 ? -e : -EAGAIN,
                        "cannot start a process that watches the socket file");
    return 0;
}

/* arg with every mark replaced by path; malloc'ed. */
static char *argument_fill(const char *arg, const char *path) {
    size_t marks = 0;
    for (const char *p = arg; (p = strstr(p, MARK)); p += sizeof MARK - 1)
        marks++;
    char *text = malloc(strlen(arg) + marks * strlen(path) + 1), *to = text;
    if (!text)
        return NULL;
    for (const char *p; (p = strstr(arg, MARK)); arg = p + sizeof MARK - 1)
        to += sprintf(to, "%.*s%s", (int)(p - arg), arg, path);
    strcpy(to, arg);
    return text;
}

static int socket_begin(struct lent *l, const char *folder) {
    struct deadline d;
    deadline_start(&d, DD_TIMEOUT_MS);
    const char *name = cmd_name() ? cmd_name() : getenv("DDICT_NAME");
    if (!name || *name == 0)
        return dd_error(DDICT_ENODICT, "no dictionary: DDICT_NAME is not set");
    int rc = l->conn = attach_connect_by(name, &d);
    if (rc >= 0)
        rc = file_make(l, folder);
    if (rc < 0)
        return rc;
    if ((rc = file_lend(l, &d)) == 0 && (rc = watcher_start(l)) == 0 &&
        setenv("DDICT_SOCKET", l->path, 1) == 0 && setenv("DDICT_NAME", name, 1) == 0)
        return 0;
    file_remove(l);
    return rc < 0 ? rc : dd_error(-ENOMEM, "no memory");
}

int cmd_socket(int argc, char **argv) {
    static const struct option longs[] = {CMD_LONGS, {"dir", required_argument, NULL, 'd'}, {0}};
    const char *folder = getenv("TMPDIR");
    struct lent l = {.folder = -1, .listening = -1, .conn = -1};
    if (!folder || *folder != '/')
        folder = "/tmp";
    for (int c; (c = cmd_option(argc, argv, "+h", longs, socket_usage)) != -1;) {
        if (c != 'd')
            return EXIT_USAGE;
        folder = optarg;
    }
    if (optind >= argc)
        return cmd_usage(socket_usage, "no command given");
    int rc = socket_begin(&l, folder);
    if (rc < 0) {
        verb_say("%s", dd_errmsg());
        return EXIT_FAILED;
    }
    for (int i = optind; i < argc; i++)
        if (!(argv[i] = argument_fill(argv[i], l.path))) {
            verb_say("no memory");
            file_remove(&l);
            return EXIT_FAILED;
        }
    execvp(argv[optind], argv + optind);
    rc = errno == ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_RUN;
    verb_say("%s: %s", argv[optind], strerror(errno));
    file_remove(&l);
    return rc;
}
