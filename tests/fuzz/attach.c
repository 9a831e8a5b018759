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

/* What may come as a descriptor; the input says how a lane begins. */
static int descriptor_make(struct fuzz_input *in, unsigned kind) {
    int fd = kind % 4 == 1 ? lane_create() : memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    uint64_t word[3];
    fuzz_must(fd >= 0);
    if (kind % 4 == 0)
        return fd;
    fuzz_copy(in, word, sizeof word);
    if (kind % 4 == 2)
        fuzz_must(ftruncate(fd, (off_t)(word[2] % (1ull << 40))) == 0);
    if (kind % 4 > 1) /* one that is no lane, but has its seals */
        fuzz_must(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0);
    if (kind % 4 == 1 && word[1])
        fuzz_must(pwrite(fd, word, 8, (off_t)(word[1] % 1024)) == 8);
    return fd;
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

static void message_send(int to, struct fuzz_input *in) {
    struct attach_msg m = {
        .magic = ATTACH_MAGIC, .protocol = PROTOCOL_VERSION, .layout = LAYOUT_VERSION};
    uint8_t bytes[sizeof m + 64];
    uint8_t how = fuzz_byte(in), n = fuzz_byte(in);
    int fds[ATTACH_FDS], nfds = how % (ATTACH_FDS + 1);
    memset(bytes, 0, sizeof bytes);
    for (int i = 0; i < nfds; i++)
        fds[i] = descriptor_make(in, how >> (i + 3));
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
    for (int i = 0; i < nfds; i++)
        close(fds[i]);
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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct fuzz_input in = {data, size};
    int pair[2], next = dup(STDERR_FILENO), room = fuzz_byte(&in) % (ATTACH_FDS + 1);
    close(next); /* the lowest free number, as later again */
    fuzz_must(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0);
    for (unsigned i = 0; in.left > 0 && i < MESSAGES_MOST; i++) {
        message_send(pair[0], &in);
        if (message_take(pair[1], room) == -ECONNRESET)
            break;
    }
    close(pair[0]);
    close(pair[1]);
    int again = dup(STDERR_FILENO);
    close(again);
    fuzz_must(again == next);
    return 0;
}
