/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wire_attach.c - the socket between clients and ddictd. Invariants: descriptors arrive once,
 * CLOEXEC, and none leaks on any failure; another user's process is refused on both sides; another
 * version is told apart from garbage; nothing waits beyond its time.
 */
#include "wire_test.h"
#include <base/clock.h>
#include <base/error.h>
#include <wire/attach.h>
#include <wire/lane.h>

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

/* --- failing libc --- */
static int eintr_sends, eintr_connects, too_many_refs;
ssize_t sendmsg(int fd, const struct msghdr *h, int flags) {
    if (eintr_sends > 0) {
        eintr_sends--;
        errno = EINTR;
        return -1;
    }
    if (too_many_refs > 0) {
        too_many_refs--;
        errno = ETOOMANYREFS;
        return -1;
    }
    return syscall(SYS_sendmsg, fd, h, flags);
}
int connect(int fd, const struct sockaddr *a, socklen_t len) {
    if (eintr_connects > 0) {
        eintr_connects--;
        errno = EINTR;
        return -1;
    }
    return (int)syscall(SYS_connect, fd, a, len);
}

static char name[DICT_NAME_MAX]; /* unique, as it is visible on the whole machine */
static void setup(void) {
    fds_count();
    snprintf(name, sizeof name, "test.%d.%lx", getpid(), (long)clock_ns() & 0xffffff);
    setenv("DDICT_NODE", "n1", 1);
}

static int accept_from(int l) {
    struct pollfd p = {.fd = l, .events = POLLIN};
    ck_assert_int_eq(poll(&p, 1, WAIT_MS), 1);
    int fd = accept4(l, NULL, NULL, SOCK_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    return fd;
}
static void pair(int *l, int *c, int *s) {
    *l = attach_listen(name);
    ck_assert_int_ge(*l, 0);
    *c = attach_connect(name, WAIT_MS);
    ck_assert_int_ge(*c, 0);
    *s = accept_from(*l);
}
static void close3(int a, int b, int c) {
    close(a);
    close(b);
    close(c);
}

START_TEST(the_node_has_the_name_that_Slurm_gave_it) {
    char b[NODE_NAME_MAX];
    ck_assert_str_eq(attach_node_name(b, sizeof b), "n1");
    unsetenv("DDICT_NODE");
    setenv("SLURMD_NODENAME", "slurm-n7", 1);
    ck_assert_str_eq(attach_node_name(b, sizeof b), "slurm-n7");
    setenv("SLURMD_NODENAME", "", 1);
    attach_node_name(b, sizeof b);
    ck_assert_uint_gt(strlen(b), 0);
    ck_assert_ptr_null(strchr(b, '.'));
}
END_TEST

START_TEST(a_client_attaches_and_maps_what_it_was_sent) {
    int l, c, s, fds[ATTACH_FDS];
    struct attach_msg m, got;
    pid_t pid = 0;
    pair(&l, &c, &s);
    ck_assert_int_eq(attach_peer_check(s, &pid), 0);
    ck_assert_int_eq(pid, getpid());
    attach_msg_init(&m, ATTACH_HELLO);
    ck_assert_int_eq(attach_send(c, &m, NULL, 0), 0);
    ck_assert_int_eq(attach_recv(s, &got, fds, ATTACH_FDS, WAIT_MS), 0);
    ck_assert_uint_eq(got.type, ATTACH_HELLO);
    ck_assert_int_eq(attach_version_check(&got), 0);
    int lane = lane_create(), pipes[2];
    ck_assert_int_eq(pipe2(pipes, O_CLOEXEC), 0);
    attach_msg_init(&m, ATTACH_MANAGER);
    m.manager = 3;
    strcpy(m.node, "n1");
    int out[3] = {lane, pipes[0], pipes[1]};
    ck_assert_int_eq(attach_send(s, &m, out, 3), 0);
    close3(lane, pipes[0], pipes[1]);
    ck_assert_int_eq(attach_recv(c, &got, fds, ATTACH_FDS, WAIT_MS), 3);
    ck_assert_uint_eq(got.manager, 3);
    ck_assert_str_eq(got.node, "n1");
    for (int i = 0; i < 3; i++)
        ck_assert(fcntl(fds[i], F_GETFD) & FD_CLOEXEC);
    struct lane map;
    ck_assert_int_eq(lane_map(&map, fds[0], true), 0);
    lane_unmap(&map);
    ck_assert_int_eq(write(fds[2], "x", 1), 1);
    char x;
    ck_assert_int_eq(read(fds[1], &x, 1), 1);
    close3(fds[0], fds[1], fds[2]);
    close3(l, c, s);
}
END_TEST

START_TEST(surplus_descriptors_are_closed) {
    int l, c, s, fds[ATTACH_FDS], out[ATTACH_FDS];
    struct attach_msg m, got;
    pair(&l, &c, &s);
    for (int i = 0; i < ATTACH_FDS; i++)
        out[i] = l;
    attach_msg_init(&m, ATTACH_HOLD);
    int n = fds_open();
    ck_assert_int_eq(attach_send(c, &m, out, ATTACH_FDS), 0);
    ck_assert_int_eq(attach_recv(s, &got, fds, 1, WAIT_MS), 1);
    close(fds[0]);
    ck_assert_int_eq(attach_send(c, &m, out, ATTACH_FDS), 0);
    ck_assert_int_eq(attach_recv(s, &got, NULL, 0, WAIT_MS), 0);
    ck_assert_int_eq(fds_open(), n);
    ck_assert_int_eq(attach_send(c, &m, out, ATTACH_FDS + 1), -EINVAL);
    close3(l, c, s);
}
END_TEST

START_TEST(descriptors_that_do_not_fit_are_told_and_leak_nothing) {
    int l, c, s, fds[ATTACH_FDS], out[3];
    struct attach_msg m, got;
    struct rlimit was, now;
    pair(&l, &c, &s);
    out[0] = out[1] = out[2] = l;
    attach_msg_init(&m, ATTACH_MANAGER);
    int n = fds_open();
    ck_assert_int_eq(attach_send(c, &m, out, 3), 0);
    getrlimit(RLIMIT_NOFILE, &was);
    now = was;
    int probe = dup(l); /* the next free number */
    close(probe);
    now.rlim_cur = (rlim_t)probe + 1; /* room for one */
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &now), 0);
    int e = attach_recv(s, &got, fds, ATTACH_FDS, WAIT_MS);
    setrlimit(RLIMIT_NOFILE, &was);
    ck_assert_int_eq(e, -EMFILE);
    ck_assert_int_eq(fds_open(), n);
    close3(l, c, s);
}
END_TEST

START_TEST(a_name_is_held_by_one_and_free_when_it_ends) {
    int l = attach_listen(name);
    ck_assert_int_ge(l, 0);
    ck_assert_int_eq(attach_listen(name), -EADDRINUSE);
    setenv("DDICT_NODE", "n2", 1); /* another node on the same host */
    int l2 = attach_listen(name);
    ck_assert_int_ge(l2, 0);
    close(l2);
    ck_assert_int_eq(attach_connect(name, 100), DDICT_ENODICT);
    ck_assert_ptr_nonnull(strstr(dd_errmsg(), name));
    setenv("DDICT_NODE", "n1", 1);
    close(l);
    ck_assert_int_eq(attach_connect(name, 100), DDICT_ENODICT);
}
END_TEST

START_TEST(long_node_names_reach_each_other_and_stay_apart) {
    char node[NODE_NAME_MAX * 2], full[DICT_NAME_MAX];
    memset(node, 'n', sizeof node);
    node[sizeof node - 1] = 0;
    memset(full, 'd', sizeof full);
    memcpy(full, name, strlen(name));
    full[sizeof full - 1] = 0;
    setenv("DDICT_NODE", node, 1);
    int l = attach_listen(full), c = attach_connect(full, WAIT_MS);
    ck_assert_int_ge(l, 0);
    ck_assert_int_ge(c, 0);
    node[sizeof node - 2] = 'm'; /* differs in the last letter */
    setenv("DDICT_NODE", node, 1);
    ck_assert_int_eq(attach_connect(full, 100), DDICT_ENODICT);
    close(l);
    close(c);
}
END_TEST

START_TEST(names_that_cannot_be_are_refused) {
    char longer[DICT_NAME_MAX + 1];
    memset(longer, 'x', sizeof longer);
    longer[DICT_NAME_MAX] = 0;
    ck_assert_int_eq(attach_listen(longer), -EINVAL);
    ck_assert_int_eq(attach_listen(""), -EINVAL);
    ck_assert_int_eq(attach_connect("a/b", 10), -EINVAL);
}
END_TEST

START_TEST(another_protocol_version_is_delivered_and_told) {
    int l, c, s, fds[ATTACH_FDS];
    struct attach_msg m, got;
    pair(&l, &c, &s);
    attach_msg_init(&m, ATTACH_HELLO);
    m.protocol++;
    memset(m.text, 'x', sizeof m.text);
    int n = fds_open();
    /* also where its message is shorter or longer than ours */
    for (int half = 0; half < 2; half++) {
        if (half)
            ck_assert_int_eq(send(c, &m, 60, 0), 60);
        else
            ck_assert_int_eq(attach_send(c, &m, &l, 1), 0);
        ck_assert_int_eq(attach_recv(s, &got, fds, ATTACH_FDS, WAIT_MS), 0);
        ck_assert_int_eq(attach_version_check(&got), DDICT_EVERSION);
        ck_assert_uint_eq(got.type, ATTACH_HELLO);
        ck_assert_int_eq(got.text[0], 0);
        ck_assert_int_eq(fds_open(), n);
    }
    attach_msg_init(&m, ATTACH_HELLO);
    m.layout++;
    ck_assert_int_eq(attach_send(c, &m, NULL, 0), 0);
    ck_assert_int_eq(attach_recv(s, &got, fds, ATTACH_FDS, WAIT_MS), 0);
    ck_assert_int_eq(attach_version_check(&got), DDICT_EVERSION);
    close3(l, c, s);
}
END_TEST

START_TEST(garbage_is_refused_and_strings_are_ended) {
    int l, c, s, fds[ATTACH_FDS];
    struct attach_msg m, got;
    uint8_t junk[4096];
    uint64_t seed = 9;
    pair(&l, &c, &s);
    for (int i = 0; i < 2000; i++) {
        size_t n = 1 + test_random(&seed) % (i % 2 ? 64 : sizeof junk);
        for (size_t k = 0; k < n; k++)
            junk[k] = (uint8_t)test_random(&seed);
        ck_assert_int_eq(send(c, junk, n, 0), (ssize_t)n);
        ck_assert_int_eq(attach_recv(s, &got, fds, ATTACH_FDS, WAIT_MS), DDICT_EPROTO);
    }
    attach_msg_init(&m, ATTACH_WELCOME);
    memset(m.node, 'n', sizeof m.node);
    memset(m.text, 't', sizeof m.text);
    for (int cut = 0; cut < 2; cut++) {
        ck_assert_int_eq(send(c, &m, sizeof m - (size_t)cut, 0), (ssize_t)sizeof m - cut);
        ck_assert_int_eq(attach_recv(s, &got, fds, ATTACH_FDS, WAIT_MS), cut ? DDICT_EPROTO : 0);
    }
    ck_assert_uint_eq(strlen(got.node), NODE_NAME_MAX - 1);
    ck_assert_uint_eq(strlen(got.text), sizeof got.text - 1);
    close3(l, c, s);
}
END_TEST

START_TEST(silence_and_death_end_a_wait) {
    int l, c, s, fds[ATTACH_FDS];
    struct attach_msg got;
    pair(&l, &c, &s);
    uint64_t t = clock_ms();
    ck_assert_int_eq(attach_recv(c, &got, fds, ATTACH_FDS, 0), -ETIMEDOUT);
    ck_assert_int_eq(attach_recv(c, &got, fds, ATTACH_FDS, 50), -ETIMEDOUT);
    t = clock_ms() - t;
    ck_assert(t >= 45 && t < WAIT_MS);
    close(s);
    ck_assert_int_eq(attach_recv(c, &got, fds, ATTACH_FDS, WAIT_MS), -ECONNRESET);
    attach_msg_init(&got, ATTACH_HELLO);
    ck_assert_int_eq(attach_send(c, &got, NULL, 0), -ECONNRESET); /* and no SIGPIPE */
    close(l);
    close(c);
}
END_TEST

START_TEST(a_peer_that_reads_nothing_does_not_hold_a_non_blocking_sender) {
    int l, c, s, e = 0, n = 0;
    struct attach_msg m;
    pair(&l, &c, &s);
    fcntl(s, F_SETFL, O_NONBLOCK);
    attach_msg_init(&m, ATTACH_MANAGER);
    while ((e = attach_send(s, &m, NULL, 0)) == 0 && n++ < 100000)
        ;
    ck_assert_int_eq(e, -EAGAIN);
    struct attach_msg got;
    for (int i = 0; i < n; i++)
        ck_assert_int_eq(attach_recv(c, &got, NULL, 0, WAIT_MS), 0);
    close3(l, c, s);
}
END_TEST

START_TEST(interrupted_and_crowded_calls_are_tried_again) {
    int l, c, s, fds[ATTACH_FDS];
    struct attach_msg m, got;
    eintr_connects = 2;
    pair(&l, &c, &s);
    attach_msg_init(&m, ATTACH_HELLO);
    eintr_sends = 3;
    ck_assert_int_eq(attach_send(c, &m, &l, 1), 0);
    too_many_refs = 5;
    ck_assert_int_eq(attach_send(c, &m, &l, 1), 0);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(attach_recv(s, &got, fds, ATTACH_FDS, WAIT_MS), 1);
        close(fds[0]);
    }
    close3(l, c, s);
}
END_TEST

START_TEST(a_full_backlog_is_waited_for_within_the_time) {
    char path[40];
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    int n = snprintf(path, sizeof path, "ddict/%s/n1", name), c[4], full = 0;
    memcpy(a.sun_path + 1, path, (size_t)n);
    int l = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(
        bind(l, (struct sockaddr *)&a, (socklen_t)(sizeof(sa_family_t) + 1 + (size_t)n)), 0);
    ck_assert_int_eq(listen(l, 0), 0);
    for (int i = 0; i < 4; i++) {
        uint64_t t = clock_ms();
        c[i] = attach_connect(name, i % 2 ? 60 : 0);
        if (c[i] < 0) {
            ck_assert_int_eq(c[i], -ETIMEDOUT);
            ck_assert_uint_lt(clock_ms() - t, WAIT_MS);
            full++;
        }
    }
    ck_assert_int_ge(full, 2);
    for (int i = 0; i < 4; i++)
        if (c[i] >= 0)
            close(c[i]);
    close(l);
}
END_TEST

/* As another user: binds the name, or connects; the result as exit code. */
static pid_t other_user(bool listens, int gate) {
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    struct attach_msg m;
    char x;
    if (setgroups(0, NULL) != 0 || setresuid(65534, 65534, 65534) != 0)
        _exit(9);
    int fd = listens ? attach_listen(name) : attach_connect(name, WAIT_MS);
    if (listens && write(gate, "l", 1) != 1)
        _exit(8);
    if (!listens)
        _exit(fd == DDICT_ECRED && strstr(dd_errmsg(), "uid 0") ? 0 : 1);
    attach_msg_init(&m, ATTACH_HELLO);
    (void)!read(gate, &x, 1);
    _exit(fd >= 0 ? 0 : 2);
}

START_TEST(a_process_of_another_user_is_refused_on_both_sides) {
    if (geteuid() != 0)
        return; /* needs to become somebody else */
    int status, gate[2];
    char x;
    int l = attach_listen(name);
    pid_t pid = other_user(false, -1);
    int s = accept_from(l); /* the server's side of it */
    ck_assert_int_eq(attach_peer_check(s, NULL), DDICT_ECRED);
    ck_assert_ptr_nonnull(strstr(dd_errmsg(), "65534"));
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
    close(s);
    close(l);
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, gate), 0);
    pid = other_user(true, gate[1]);
    close(gate[1]);
    ck_assert_int_eq(read(gate[0], &x, 1), 1);
    ck_assert_int_eq(attach_connect(name, WAIT_MS), DDICT_ECRED);
    ck_assert_ptr_nonnull(strstr(dd_errmsg(), "65534"));
    shutdown(gate[0], SHUT_RDWR);
    close(gate[0]);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
}
END_TEST

static bool text_write(const char *file, const char *text) {
    int fd = open(file, O_WRONLY | O_CLOEXEC);
    bool written = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    if (fd >= 0)
        close(fd);
    return written;
}

/* A child of the same user in a user namespace where it calls itself `inside` (-1: there is no
 * map). Exits with 0 when it was let in, 1: refused, 2: there are no namespaces. */
static int namespace_child(long inside) {
    int status, l = attach_listen(name);
    char map[64];
    ck_assert_int_ge(l, 0);
    pid_t pid = fork();
    if (pid == 0) {
        snprintf(map, sizeof map, "%ld %u 1", inside, geteuid());
        if (unshare(CLONE_NEWUSER) != 0 || (inside >= 0 && !text_write("/proc/self/uid_map", map)))
            _exit(2);
        int fd = attach_connect(name, WAIT_MS);
        _exit(fd >= 0 ? 0 : fd == DDICT_ECRED ? 1 : 3);
    }
    struct pollfd p = {.fd = l, .events = POLLIN};
    pid_t ended;
    do
        ended = waitpid(pid, &status, WNOHANG);
    while (poll(&p, 1, 10) == 0 && ended == 0);
    if (p.revents) {
        int s = accept_from(l);
        ck_assert_int_eq(attach_peer_check(s, NULL), 0); /* out here it is who it is */
        close(s);
    }
    close(l);
    ck_assert_int_eq(ended ? ended : waitpid(pid, &status, 0), pid);
    ck_assert(WIFEXITED(status));
    return WEXITSTATUS(status);
}

START_TEST(a_user_is_known_in_a_namespace_and_nobody_is_not) {
    int rc = namespace_child(0);
    if (rc == 2)
        return; /* not on this machine */
    ck_assert_int_eq(rc, 0);
    ck_assert_int_eq(namespace_child(1234), 0);
    ck_assert_int_eq(namespace_child(65534), 1); /* so would every stranger be called */
    ck_assert_int_eq(namespace_child(-1), 1);
}
END_TEST

int main(void) {
    Suite *s = suite_create("wire_attach");
    TCase *c = tcase_create("attach");
    tcase_set_timeout(c, 120);
    tcase_add_checked_fixture(c, setup, fds_check);
    tcase_add_test(c, the_node_has_the_name_that_Slurm_gave_it);
    tcase_add_test(c, a_client_attaches_and_maps_what_it_was_sent);
    tcase_add_test(c, surplus_descriptors_are_closed);
    tcase_add_test(c, descriptors_that_do_not_fit_are_told_and_leak_nothing);
    tcase_add_test(c, a_name_is_held_by_one_and_free_when_it_ends);
    tcase_add_test(c, long_node_names_reach_each_other_and_stay_apart);
    tcase_add_test(c, names_that_cannot_be_are_refused);
    tcase_add_test(c, another_protocol_version_is_delivered_and_told);
    tcase_add_test(c, garbage_is_refused_and_strings_are_ended);
    tcase_add_test(c, silence_and_death_end_a_wait);
    tcase_add_test(c, a_peer_that_reads_nothing_does_not_hold_a_non_blocking_sender);
    tcase_add_test(c, interrupted_and_crowded_calls_are_tried_again);
    tcase_add_test(c, a_full_backlog_is_waited_for_within_the_time);
    tcase_add_test(c, a_process_of_another_user_is_refused_on_both_sides);
    tcase_add_test(c, a_user_is_known_in_a_namespace_and_nobody_is_not);
    suite_add_tcase(s, c);
    return wire_main(s);
}
