/* SPDX-License-Identifier: Apache-2.0 */
/*
 * attach.c - the socket between a client and ddictd, whichever end reads: messages of any length
 * with any descriptors. None of them leaks, and what is used of them is checked: a lane is mapped as
 * a manager and as a client would, a lease page as ddictd would take it.
 */
#include "fuzz.h"
#include <base/error.h>
#include <base/versions.h>
#include <ddict_types.h>
#include <wire/attach.h>
#include <wire/lane.h>

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>

enum { MESSAGES_MOST = 32 };

enum { PLAIN, LANE, SIZED, SEALED }; /* what a descriptor may be */

static int memfd_make(void) {
    int fd = memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    fuzz_must(fd >= 0);
    return fd;
}

/* No lane, but with its seals. */
static void seal(int fd) {
    fuzz_must(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0);
}

_Static_assert(sizeof(struct lane_page) <= 2048, "what a message changes of a lane is put back");

/* Made once: those that nobody changes, and the lanes of a message, with what they begin with. */
static struct {
    int plain, sealed, lane[ATTACH_FDS];
    uint8_t head[2048];
} kept;

static void kept_make(void) {
    kept.plain = memfd_make();
    seal(kept.sealed = memfd_make());
    for (int i = 0; i < ATTACH_FDS; i++)
        fuzz_must((kept.lane[i] = lane_create()) >= 0);
    fuzz_must(pread(kept.lane[0], kept.head, sizeof kept.head, 0) == (ssize_t)sizeof kept.head);
}

/* What may come as the i-th descriptor; the input says how a lane begins. */
static int descriptor_make(struct fuzz_input *in, int i, unsigned kind) {
    uint64_t word[3];
    if (kind == PLAIN)
        return kept.plain;
    fuzz_copy(in, word, sizeof word);
    if (kind == SEALED)
        return kept.sealed;
    if (kind == LANE) {
        if (word[1])
            fuzz_must(pwrite(kept.lane[i], word, 8, (off_t)(word[1] % 1024)) == 8);
        return kept.lane[i];
    }
    int fd = memfd_make();
    fuzz_must(ftruncate(fd, (off_t)(word[2] % (1ull << 40))) == 0);
    seal(fd);
    return fd;
}

/* A kept lane is as it was made: nobody writes into its rings. */
static void descriptor_end(int fd, unsigned kind) {
    if (kind == LANE)
        fuzz_must(pwrite(fd, kept.head, sizeof kept.head, 0) == (ssize_t)sizeof kept.head);
    else if (kind == SIZED)
        close(fd);
}

static void descriptor_take(int fd) {
    struct lane lane;
    for (int client = 0; client < 2; client++)
        if (lane_map(&lane, fd, client) == 0) {
            struct msg m;
            const uint8_t *payload;
            if (ring_peek(client ? &lane.cq : &lane.sq, &m, &payload) > 0)
                fuzz_read(payload, m.len - MSG_HEADER);
            lane_unmap(&lane);
        }
}

static int message_take(int from, int room) {
    struct attach_msg m;
    int fds[ATTACH_FDS];
    int n = attach_recv(from, &m, fds, room, 0);
    if (n < 0) {
        fuzz_must(n == -ETIMEDOUT || n == DDICT_EPROTO || n == -ECONNRESET);
        return n;
    }
    fuzz_must(n <= room && m.magic == ATTACH_MAGIC);
    fuzz_must(strlen(m.node) < sizeof m.node && strlen(m.step) < sizeof m.step &&
              strlen(m.text) < sizeof m.text);
    int e = attach_version_check(&m);
    fuzz_must(e == 0 || (e == DDICT_EVERSION && *dd_errmsg()));
    for (int i = 0; i < n; i++) {
        fuzz_must(fcntl(fds[i], F_GETFD) & FD_CLOEXEC);
        descriptor_take(fds[i]);
        close(fds[i]);
    }
    return 0;
}

/* The next message of the input goes from `to` to `from`. */
static int message_pass(int to, int from, int room, struct fuzz_input *in) {
    struct attach_msg m = {
        .magic = ATTACH_MAGIC, .protocol = PROTOCOL_VERSION, .layout = LAYOUT_VERSION};
    uint8_t bytes[sizeof m + 64];
    uint8_t how = fuzz_byte(in), n = fuzz_byte(in);
    int fds[ATTACH_FDS], nfds = how % (ATTACH_FDS + 1);
    memset(bytes, 0, sizeof bytes);
    for (int i = 0; i < nfds; i++)
        fds[i] = descriptor_make(in, i, (how >> (i + 3)) % 4u);
    if (how & 64) { /* as it should be, but for some of its bytes */
        fuzz_copy(in, &m.type, 4);
        fuzz_copy(in, m.text, n);
        fuzz_must(attach_send(to, &m, fds, nfds) == 0);
    } else {
        memcpy(bytes, &m, sizeof m);
        size_t len = how & 128 ? sizeof m : (size_t)n * sizeof bytes / 256;
        fuzz_copy(in, bytes, n);
        fuzz_must(send(to, bytes, len, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)len);
    }
    int e = message_take(from, room);
    for (int i = 0; i < nfds; i++)
        descriptor_end(fds[i], (how >> (i + 3)) % 4u);
    return e;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct fuzz_input in = {data, size};
    int pair[2], room = fuzz_byte(&in) % (ATTACH_FDS + 1);
    if (kept.sealed == 0)
        kept_make();
    int next = dup(STDERR_FILENO);
    close(next); /* the lowest free number, as later again */
    fuzz_must(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0);
    for (unsigned i = 0; in.left > 0 && i < MESSAGES_MOST; i++)
        if (message_pass(pair[0], pair[1], room, &in) == -ECONNRESET)
            break;
    close(pair[0]);
    close(pair[1]);
    int again = dup(STDERR_FILENO);
    close(again);
    fuzz_must(again == next);
    return 0;
}
