/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wire_bench.c - what lanes and connections cost, without a dictionary behind them. Two processes:
 * a client and a manager that copies the value and answers. Not installed. wire_bench [seconds a
 * line]
 */
#include <base/clock.h>
#include <base/spin.h>
#include <base/stats.h>
#include <wire/conn.h>
#include <wire/lane.h>
#include <wire/loop.h>

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define VALUE 1024u
#define KEY   16u
#define DEPTH 64 /* requests under way when pipelined */

static double seconds = 1.0;

static void die(const char *what) {
    fprintf(stderr, "wire_bench: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void stay_on(int cpu) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    sched_setaffinity(0, sizeof one, &one);
}

static void print_latency(const char *name, struct histogram *h, uint64_t total_ns) {
    printf("%-44s p50 %7.2f us  p99 %8.2f us  max %9.1f us  %9.0f /s\n", name,
           (double)histogram_percentile(h, 50) / 1e3, (double)histogram_percentile(h, 99) / 1e3,
           (double)h->max_ns / 1e3, (double)h->count * 1e9 / (double)total_ns);
    fflush(stdout);
}
static void print_rate(const char *name, uint64_t n, uint64_t bytes, uint64_t ns) {
    printf("%-44s %10.0f /s  %8.2f GB/s\n", name, (double)n * 1e9 / (double)ns,
           (double)bytes / (double)ns);
    fflush(stdout);
}

/* --- lanes --- */

struct shared {
    uint32_t sleeping __attribute__((aligned(64)));
    int spin; /* the manager never sleeps */
};
static struct shared *sh;
static struct lane lane;
static int event_fd;
static uint8_t sink[1 << 20] __attribute__((aligned(64)));

static void manager_sleep(void) {
    __atomic_store_n(&sh->sleeping, 1, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_SEQ_CST); /* pairs with the client's in submit() */
    if (!ring_ready(&lane.sq)) {
        struct pollfd p = {.fd = event_fd, .events = POLLIN};
        poll(&p, 1, 1000);
    }
    __atomic_store_n(&sh->sleeping, 0, __ATOMIC_RELAXED);
    uint64_t n;
    if (read(event_fd, &n, sizeof n) < 0 && errno != EAGAIN)
        die("eventfd");
}

static void lane_manager(int fd) {
    if (lane_map(&lane, fd, false) != 0)
        die("lane_map");
    uint64_t at = 0;
    for (;;) {
        struct msg m;
        const uint8_t *p;
        bool bad = false, worked = false;
        while (ring_peek(&lane.sq, &m, &p) > 0) {
            uint32_t n = m.len - MSG_HEADER;
            if (at + n > sizeof sink)
                at = 0;
            memcpy(sink + at, p, n);
            at += (n + 63) & ~63u;
            if (m.type != MSG_DATA || (m.flags & MSGF_LAST)) {
                struct msg *r = ring_reserve(&lane.cq, MSG_HEADER, &bad);
                if (!r)
                    break;
                *r = (struct msg){.len = MSG_HEADER, .type = MSG_REPLY, .id = m.id};
                ring_commit(&lane.cq);
            }
            ring_consume(&lane.sq, &m);
            worked = true;
        }
        if (worked)
            lane_wake_client(&lane);
        else if (!__atomic_load_n(&sh->spin, __ATOMIC_RELAXED))
            manager_sleep();
        else
            spin_relax();
    }
}

static bool submit(uint64_t id, uint16_t type, uint16_t flags, uint32_t payload) {
    static uint8_t value[DD_MSG_PIECE];
    bool bad = false;
    struct msg *m = ring_reserve(&lane.sq, MSG_HEADER + payload, &bad);
    if (!m)
        return false;
    *m = (struct msg){.len = MSG_HEADER + payload,
                      .type = type,
                      .flags = flags,
                      .id = id,
                      .key_len = type == MSG_PUT ? KEY : 0,
                      .val_len = type == MSG_PUT ? payload - KEY : 0};
    memcpy(m + 1, value, payload);
    ring_commit(&lane.sq);
    __atomic_thread_fence(__ATOMIC_SEQ_CST); /* pairs with the manager's in manager_sleep() */
    if (__atomic_load_n(&sh->sleeping, __ATOMIC_RELAXED)) {
        uint64_t one = 1;
        if (write(event_fd, &one, sizeof one) < 0)
            die("eventfd");
    }
    return true;
}
static bool collect(void) {
    struct msg m;
    const uint8_t *p;
    if (ring_peek(&lane.cq, &m, &p) <= 0)
        return false;
    ring_consume(&lane.cq, &m);
    return true;
}
static void collect_sleeping(void) {
    while (!collect()) {
        uint32_t doorbell = lane_sleep_announce(&lane);
        if (!ring_ready(&lane.cq))
            lane_sleep(&lane, doorbell, DD_WAIT_SLICE_MS);
    }
}

static void lane_ping(const char *name, uint32_t payload, bool spin) {
    struct histogram h = {0};
    uint64_t start = clock_ns(), end = start + (uint64_t)(seconds * 1e9), t = start;
    __atomic_store_n(&sh->spin, spin, __ATOMIC_RELAXED);
    for (uint64_t id = 0; t < end; id++) {
        submit(id, MSG_PUT, 0, payload);
        if (spin)
            while (!collect())
                spin_relax();
        else
            collect_sleeping();
        uint64_t now = clock_ns();
        histogram_add(&h, now - t);
        t = now;
    }
    print_latency(name, &h, t - start);
}

static void lane_pipeline(void) {
    uint64_t start = clock_ns(), end = start + (uint64_t)(seconds * 1e9), sent = 0, got = 0;
    while (clock_ns() < end)
        for (int i = 0; i < 256; i++) {
            while (sent - got < DEPTH && submit(sent, MSG_PUT, 0, KEY + VALUE))
                sent++;
            while (collect())
                got++;
        }
    uint64_t ns = clock_ns() - start;
    print_rate("lane, put of 1 KiB, 64 under way", got, got * VALUE, ns);
    while (got < sent)
        got += collect();
}

static void lane_stream(uint32_t piece) {
    char name[80];
    uint64_t start = clock_ns(), end = start + (uint64_t)(seconds * 1e9), bytes = 0, n = 0;
    while (clock_ns() < end) {
        while (!submit(1, MSG_DATA, 0, piece))
            spin_relax();
        bytes += piece;
        n++;
    }
    while (!submit(1, MSG_DATA, MSGF_LAST, piece))
        spin_relax();
    while (!collect())
        spin_relax();
    snprintf(name, sizeof name, "lane, stream in pieces of %u bytes", piece);
    print_rate(name, n, bytes, clock_ns() - start);
}

static void bench_lanes(int cpus) {
    int fd = lane_create();
    sh = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    event_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (fd < 0 || sh == MAP_FAILED || event_fd < 0)
        die("lane");
    sh->spin = 1;
    pid_t parent = getpid(), pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(0);
        stay_on(1 % cpus);
        lane_manager(fd);
    }
    stay_on(0);
    if (pid < 0 || lane_map(&lane, fd, true) != 0)
        die("lane");
    if (cpus > 1) {
        lane_ping("lane, put of 16 B, both spin", KEY + 1, true);
        lane_ping("lane, put of 1 KiB, both spin", KEY + VALUE, true);
        lane_ping("lane, put of 64 KiB, both spin", KEY + 65536, true);
        lane_pipeline();
        lane_stream(DD_MSG_PIECE);
        lane_stream(DD_MSG_PIECE / 2);
        lane_stream(DD_MSG_PIECE / 4);
    }
    lane_ping("lane, put of 1 KiB, both sleep", KEY + VALUE, false);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    lane_unmap(&lane);
    close(fd);
    close(event_fd);
    munmap(sh, 4096);
}

/* --- TCP --- */

struct peer {
    struct conn *c;
    bool up, down, answers;
    uint64_t got, bytes;
    unsigned bodies; /* under way */
};
static void on_up(struct conn *c, void *arg, uint32_t id, enum conn_role role) {
    ((struct peer *)arg)->up = true;
}
static void *on_payload_to(struct conn *c, void *arg, const struct msg *m) {
    return m->type == MSG_DATA ? sink : NULL;
}
static int on_message(struct conn *c, void *arg, const struct msg *m, void *payload) {
    struct peer *p = arg;
    p->got++;
    p->bytes += m->len;
    if (p->answers && (m->type != MSG_DATA || (m->flags & MSGF_LAST))) {
        struct msg r = {.type = MSG_REPLY, .id = m->id};
        return conn_send(c, &r, NULL, 0, NULL, 0, NULL, NULL);
    }
    return 0;
}
static void on_down(struct conn *c, void *arg, int code) {
    ((struct peer *)arg)->down = true;
}
static void on_done(void *arg) {
    ((struct peer *)arg)->bodies--;
}
static const struct conn_ops ops = {on_up, on_payload_to, on_message, NULL, on_down};

static void turn(int ep, bool spin) {
    if (io_wait(ep, spin ? 0 : 1000) < 0)
        die("io_wait");
}

static void tcp_server(int listener, const struct conn_identity *me) {
    struct peer p = {.answers = true};
    int ep = epoll_create1(EPOLL_CLOEXEC), fd = accept(listener, NULL, NULL);
    if (fd < 0 || conn_accept(&p.c, ep, me, fd, &ops, &p) != 0)
        die("accept");
    while (!p.down)
        turn(ep, __atomic_load_n(&sh->spin, __ATOMIC_RELAXED));
    conn_free(p.c);
    _exit(0);
}

static void tcp_ping(const char *name, struct peer *p, int ep, bool spin) {
    static uint8_t value[KEY + VALUE];
    struct histogram h = {0};
    uint64_t start = clock_ns(), end = start + (uint64_t)(seconds * 1e9), t = start;
    __atomic_store_n(&sh->spin, spin, __ATOMIC_RELAXED);
    while (t < end) {
        struct msg m = {.type = MSG_PUT, .key_len = KEY, .val_len = VALUE};
        uint64_t before = p->got;
        if (conn_send(p->c, &m, value, sizeof value, NULL, 0, NULL, NULL) != 0)
            die("conn_send");
        while (p->got == before)
            turn(ep, spin);
        uint64_t now = clock_ns();
        histogram_add(&h, now - t);
        t = now;
    }
    print_latency(name, &h, t - start);
}

static void tcp_pipeline(struct peer *p, int ep) {
    static uint8_t value[KEY + VALUE];
    uint64_t start = clock_ns(), end = start + (uint64_t)(seconds * 1e9), sent = p->got,
             first = sent;
    while (clock_ns() < end) {
        while (sent - p->got < 4 * DEPTH) {
            struct msg m = {.type = MSG_PUT, .id = sent++, .key_len = KEY, .val_len = VALUE};
            if (conn_send(p->c, &m, value, sizeof value, NULL, 0, NULL, NULL) != 0)
                die("conn_send");
        }
        turn(ep, false);
    }
    uint64_t n = p->got - first;
    print_rate("tcp, put of 1 KiB, 256 under way", n, n * VALUE, clock_ns() - start);
    while (p->got < sent)
        turn(ep, false);
}

static void tcp_stream(struct peer *p, int ep) {
    static uint8_t piece[DD_MSG_PIECE];
    uint64_t start = clock_ns(), end = start + (uint64_t)(seconds * 1e9), n = 0, before = p->got;
    while (clock_ns() < end) {
        for (; !conn_full(p->c); n++) {
            struct msg m = {.type = MSG_DATA};
            p->bodies++;
            if (conn_send(p->c, &m, NULL, 0, piece, sizeof piece, on_done, p) != 0)
                die("conn_send");
        }
        turn(ep, false);
    }
    struct msg m = {.type = MSG_DATA, .flags = MSGF_LAST};
    if (conn_send(p->c, &m, NULL, 0, NULL, 0, NULL, NULL) != 0)
        die("conn_send");
    while (p->got == before)
        turn(ep, false);
    print_rate("tcp, stream in pieces", n, n * DD_MSG_PIECE, clock_ns() - start);
}

static void bench_tcp(int cpus) {
    static const uint8_t keys[3][KEY_SIZE];
    struct conn_identity a = {.keys = keys, .nodes = 3, .self = 1},
                         b = {.keys = keys, .nodes = 3, .self = 2};
    struct sockaddr_storage at = {.ss_family = AF_INET};
    uint16_t port;
    struct peer p = {0};
    ((struct sockaddr_in *)&at)->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int l = conn_listen(&at, &port), ep = epoll_create1(EPOLL_CLOEXEC);
    if (l < 0 || ep < 0)
        die("listen");
    ((struct sockaddr_in *)&at)->sin_port = htons(port);
    sh = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (sh == MAP_FAILED)
        die("mmap");
    pid_t parent = getpid(), pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(0);
        stay_on(1 % cpus);
        struct pollfd in = {.fd = l, .events = POLLIN};
        poll(&in, 1, 5000);
        tcp_server(l, &b);
    }
    if (pid < 0 || conn_open(&p.c, ep, &a, ROLE_DATA, 2, &at, 1, &ops, &p) != 0)
        die("connect");
    while (!p.up && !p.down)
        turn(ep, false);
    if (p.down)
        die("handshake");
    if (cpus > 1)
        tcp_ping("tcp, put of 1 KiB, both spin", &p, ep, true);
    tcp_ping("tcp, put of 1 KiB, both block", &p, ep, false);
    tcp_pipeline(&p, ep);
    tcp_stream(&p, ep);
    conn_free(p.c);
    waitpid(pid, NULL, 0);
    close(l);
    close(ep);
    munmap(sh, 4096);
}

int main(int argc, char **argv) {
    if (argc > 1)
        seconds = atof(argv[1]);
    if (seconds <= 0 || seconds > 60) {
        fprintf(stderr, "usage: wire_bench [seconds a line]\n");
        return 2;
    }
    int cpus = (int)sysconf(_SC_NPROCESSORS_ONLN);
    printf("%d CPUs; one client, one manager\n", cpus);
    bench_lanes(cpus);
    bench_tcp(cpus);
    return 0;
}
