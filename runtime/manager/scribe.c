/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scribe.c - writes lines to files of the user, one after another. A file system may hang for a minute; then the dictionary must go on and its beats too. So a child
 * does it, which has none of our descriptors (a name that is held open could not be bound again) and dies with us.
 */
#include <base/log.h>
#include <manager/supervisor.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define END_LOOK  (4 << 20)
#define LINES_MAX 256u /* kept for a file system that hangs; later ones are lost */

/* Exit codes of the child; below: errno. */
enum { WROTE_NOTHING = 200, NO_FILE, NOT_OURS, LINKED, KILLED };

struct scribe_line {
    struct scribe_line *next;
    enum scribe_file file;
    char *text;
    size_t len;
};
struct scribe {
    struct scribe_line *first, **last;
    unsigned n;
    pid_t pid;    /* of the child that writes `first`; 0: none */
    bool torn[2]; /* a line was cut short (disk full): the next one begins on a new line */
    bool warned[2], written[2];
};

static const char *path_of(const struct supervisor *s, enum scribe_file file) {
    return file == SCRIBE_RECORD ? s->opt.log : s->opt.summary;
}

/*
 * In the child: is the end of this dictionary in the file already? Another node may have taken us for lost, while we were stopped. Looks at the last END_LOOK bytes.
 */
static bool end_is_there(const char *path, const char *text) {
    const char *id = strstr(text, "\"dict\":\"");
    int fd = id ? open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK) : -1;
    off_t size = fd >= 0 ? lseek(fd, 0, SEEK_END) : -1,
          from = size > END_LOOK ? size - END_LOOK : 0;
    char *all = size > 0 ? malloc((size_t)(size - from) + 1) : NULL, key[64];
    ssize_t n = all ? pread(fd, all, (size_t)(size - from), from) : -1;
    bool found = false;
    snprintf(key, sizeof key, "%.41s", id ? id : "");
    if (n > 0) {
        all[n] = 0;
        for (char *save, *l = strtok_r(all, "\n", &save); l && !found;
             l = strtok_r(NULL, "\n", &save))
            found = strstr(l, "\"event\":\"job_end\"") && strstr(l, key);
    }
    free(all);
    if (fd >= 0)
        close(fd);
    return found;
}

/* In the child: 0 or why not. */
static int line_write(const char *path, bool create, const char *text, size_t len, bool torn) {
    struct stat st;
    int fd = open(path,
                  O_WRONLY | O_APPEND | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY |
                      (create ? O_CREAT : 0),
                  0600);
    if (fd < 0)
        return errno;
    if (fstat(fd, &st) < 0)
        return errno;
    if (!S_ISREG(st.st_mode))
        return NO_FILE;
    if (st.st_uid != geteuid())
        return NOT_OURS;
    if (create && st.st_nlink != 1)
        return LINKED;
    if (create && strstr(text, "\"event\":\"job_end\"") && end_is_there(path, text))
        return 0;
    if (torn && write(fd, "\n", 1) != 1)
        return errno ? errno : WROTE_NOTHING;
    for (size_t done = 0; done < len;) {
        ssize_t n = write(fd, text + done, len - done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? errno : WROTE_NOTHING;
        done += (size_t)n;
    }
    return close(fd) < 0 ? errno
                         : 0; /* some network file systems say only now that the disk is full */
}

static void child(struct supervisor *s, const struct scribe_line *l, pid_t parent)
    __attribute__((noreturn));
static void child(struct supervisor *s, const struct scribe_line *l, pid_t parent) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(ECANCELED);
    prctl(PR_SET_NAME, "ddictd:record");
    for (int fd = 0; fd < 3; fd++)
        close(fd); /* who reads our stdout shall see our end */
    close_range(3, ~0u, 0);
    _exit(line_write(path_of(s, l->file), l->file == SCRIBE_RECORD, l->text, l->len,
                     s->scribe->torn[l->file]));
}

static void line_drop(struct scribe *c) {
    struct scribe_line *l = c->first;
    c->first = l->next;
    if (!c->first)
        c->last = &c->first;
    c->n--;
    free(l->text);
    free(l);
}

static const char *why(int code) {
    switch (code) {
    case WROTE_NOTHING:
        return "nothing was written";
    case NO_FILE:
        return "it is no regular file";
    case NOT_OURS:
        return "it belongs to another user";
    case LINKED:
        return "it has several links";
    case ELOOP:
        return "it is a symbolic link";
    case KILLED:
        return "who wrote it was killed";
    default:
        return strerror(code);
    }
}

static void failed(struct supervisor *s, enum scribe_file file, const char *text) {
    if (s->scribe->warned[file])
        return;
    s->scribe->warned[file] = true;
    log_warn("%s can not be written: %s", path_of(s, file), text);
    say("warn the %s %s can not be written: %s", file == SCRIBE_RECORD ? "record" : "summary",
        path_of(s, file), text);
}

static void next(struct supervisor *s) {
    struct scribe *c = s->scribe;
    while (c->first && c->pid == 0) {
        pid_t parent = getpid();
        c->pid = fork();
        if (c->pid == 0)
            child(s, c->first, parent);
        if (c->pid > 0)
            return;
        c->pid = 0;
        failed(s, c->first->file, strerror(errno));
        line_drop(c);
    }
}

int scribe_init(struct supervisor *s) {
    s->scribe = calloc(1, sizeof *s->scribe);
    if (!s->scribe)
        return -ENOMEM;
    s->scribe->last = &s->scribe->first;
    return 0;
}

void scribe_write(struct supervisor *s, enum scribe_file file, char *text, size_t len) {
    struct scribe *c = s->scribe;
    struct scribe_line *l = c && path_of(s, file) && c->n < LINES_MAX ? calloc(1, sizeof *l) : NULL;
    if (!l) {
        free(text);
        return;
    }
    *l = (struct scribe_line){.file = file, .text = text, .len = len};
    *c->last = l;
    c->last = &l->next;
    c->n++;
    next(s);
}

void scribe_reaped(struct supervisor *s) {
    struct scribe *c = s->scribe;
    int status;
    if (!c || c->pid == 0 || waitpid(c->pid, &status, WNOHANG) != c->pid)
        return;
    enum scribe_file file = c->first->file;
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : KILLED;
    c->pid = 0;
    c->torn[file] =
        code == ENOSPC || code == EDQUOT || code == EFBIG || code == EIO || code == KILLED;
    if (code)
        failed(s, file, why(code));
    else
        c->written[file] = true;
    line_drop(c);
    next(s);
}

bool scribe_busy(const struct supervisor *s) {
    return s->scribe && s->scribe->first;
}
bool scribe_failed(const struct supervisor *s) {
    return s->scribe && s->scribe->warned[SCRIBE_RECORD];
}

void scribe_late(struct supervisor *s) {
    if (scribe_busy(s))
        failed(s, s->scribe->first->file, "it took too long");
}

void scribe_end(struct supervisor *s) {
    struct scribe *c = s->scribe;
    if (!c)
        return;
    if (c->pid > 0) {
        kill(c->pid, SIGKILL);
        waitpid(c->pid, NULL, WNOHANG); /* one that hangs in the file system is left to init */
    }
    while (c->first)
        line_drop(c);
    free(c);
    s->scribe = NULL;
}
