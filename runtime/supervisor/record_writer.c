/* SPDX-License-Identifier: Apache-2.0 */
/*
 * record_writer.c - writes lines to files of the user, one after another. A file system may hang
 * for a minute, and the dictionary and its beats must go on meanwhile. So a child writes. It has
 * none of our descriptors, because a name that a child still holds could not be bound again, and it
 * dies with us.
 */
#include "record_writer.h"

#include "control.h"
#include "startup_output.h"
#include "supervisor.h"
#include <base/log.h>

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
#define LINES_MAX 256u /* waiting for a file system that hangs; later lines are lost */

/* Exit codes of the child; below: errno. */
enum { WROTE_NOTHING = 200, NO_FILE, NOT_OURS, LINKED, KILLED };

struct unwritten_line {
    struct unwritten_line *next;
    enum written_file file;
    char *text;
    size_t len;
};
struct record_writer {
    struct unwritten_line *first, **last;
    unsigned n;
    pid_t pid;       /* of the child that writes `first`; 0: none */
    bool torn[2];    /* a line was cut short (disk full): the next one begins on a new line */
    bool follows[2]; /* record_writer_follows(), and nothing was written since */
    bool warned[2], written[2];
    bool closed[2]; /* record_writer_close() */
};

static const char *file_path(const struct supervisor *s, enum written_file file) {
    return file == WRITE_RECORD ? s->opt.record : s->opt.summary;
}

/* In the child. */
static bool last_line_is_cut(const char *path) {
    char last = '\n';
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    off_t size = fd >= 0 ? lseek(fd, 0, SEEK_END) : 0;
    bool cut = size > 0 && pread(fd, &last, 1, size - 1) == 1 && last != '\n';
    if (fd >= 0)
        close(fd);
    return cut;
}

/*
 * In the child: does the file have the end of this dictionary already? Another node may have
 * written it because it took us for lost while we were stopped. Looks at the last END_LOOK bytes.
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

/* In the child: 0 or why not. looks: whether another node wrote the end. */
static int line_write(const char *path, bool create, const char *text, size_t len, bool torn,
                      bool looks) {
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
    if (looks && strstr(text, "\"event\":\"job_end\"") && end_is_there(path, text))
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
    /* some network file systems report a full disk only now */
    return close(fd) < 0 ? errno : 0;
}

static void line_child(struct supervisor *s, const struct unwritten_line *l, pid_t parent)
    __attribute__((noreturn));
static void line_child(struct supervisor *s, const struct unwritten_line *l, pid_t parent) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(ECANCELED);
    prctl(PR_SET_NAME, "ddictd:record");
    for (int fd = 0; fd < 3; fd++)
        close(fd); /* so that the reader of ddictd's stdout sees its end when ddictd ends */
    close_range(3, ~0u, 0);
    const struct record_writer *c = s->record_writer;
    const char *path = file_path(s, l->file);
    /* a node that was cut off may have written an end of its own */
    bool decides = survives_nodes(s) && control_decides(s) && !s->cut_off;
    bool torn = c->torn[l->file] || (c->follows[l->file] && last_line_is_cut(path));
    _exit(line_write(path, l->file == WRITE_RECORD, l->text, l->len, torn,
                     l->file == WRITE_RECORD && !decides));
}

static void line_drop(struct record_writer *c) {
    struct unwritten_line *l = c->first;
    c->first = l->next;
    if (!c->first)
        c->last = &c->first;
    c->n--;
    free(l->text);
    free(l);
}

static const char *exit_code_text(int code) {
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

static void failure_tell(struct supervisor *s, enum written_file file, const char *text) {
    if (s->record_writer->warned[file])
        return;
    s->record_writer->warned[file] = true;
    log_warn("%s can not be written: %s", file_path(s, file), text);
    startup_print("warn the %s %s can not be written: %s",
                  file == WRITE_RECORD ? "record" : "summary", file_path(s, file), text);
}

static void line_start(struct supervisor *s) {
    struct record_writer *c = s->record_writer;
    while (c->first && c->pid == 0) {
        pid_t parent = getpid();
        c->pid = fork();
        if (c->pid == 0)
            line_child(s, c->first, parent);
        if (c->pid > 0)
            return;
        c->pid = 0;
        failure_tell(s, c->first->file, strerror(errno));
        line_drop(c);
    }
}

void record_writer_follows(struct supervisor *s) {
    for (size_t i = 0; i < 2; i++)
        s->record_writer->follows[i] = true;
}

int record_writer_init(struct supervisor *s) {
    s->record_writer = calloc(1, sizeof *s->record_writer);
    if (!s->record_writer)
        return -ENOMEM;
    s->record_writer->last = &s->record_writer->first;
    return 0;
}

void record_writer_write(struct supervisor *s, enum written_file file, char *text, size_t len) {
    struct record_writer *c = s->record_writer;
    struct unwritten_line *l = c && file_path(s, file) && !c->closed[file] && c->n < LINES_MAX
                                   ? calloc(1, sizeof *l)
                                   : NULL;
    if (!l) {
        free(text);
        return;
    }
    *l = (struct unwritten_line){.file = file, .text = text, .len = len};
    *c->last = l;
    c->last = &l->next;
    c->n++;
    line_start(s);
}

void record_writer_close(struct supervisor *s, enum written_file file) {
    if (s->record_writer)
        s->record_writer->closed[file] = true;
}

void record_writer_reap(struct supervisor *s) {
    struct record_writer *c = s->record_writer;
    int status;
    if (!c || c->pid == 0 || waitpid(c->pid, &status, WNOHANG) != c->pid)
        return;
    enum written_file file = c->first->file;
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : KILLED;
    c->pid = 0;
    c->torn[file] =
        code == ENOSPC || code == EDQUOT || code == EFBIG || code == EIO || code == KILLED;
    if (code)
        failure_tell(s, file, exit_code_text(code));
    else
        c->written[file] = true, c->follows[file] = false;
    line_drop(c);
    line_start(s);
}

bool record_writer_is_busy(const struct supervisor *s) {
    return s->record_writer && s->record_writer->first;
}
bool record_writer_has_failed(const struct supervisor *s) {
    return s->record_writer && s->record_writer->warned[WRITE_RECORD];
}

void record_writer_late(struct supervisor *s) {
    if (record_writer_is_busy(s))
        failure_tell(s, s->record_writer->first->file, "it took too long");
}

void record_writer_end(struct supervisor *s) {
    struct record_writer *c = s->record_writer;
    if (!c)
        return;
    if (c->pid > 0) {
        kill(c->pid, SIGKILL);
        waitpid(c->pid, NULL, WNOHANG); /* one that hangs in the file system is left to init */
    }
    while (c->first)
        line_drop(c);
    free(c);
    s->record_writer = NULL;
}
