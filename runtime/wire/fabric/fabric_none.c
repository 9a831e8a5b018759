/* SPDX-License-Identifier: Apache-2.0 */
/* fabric_none.c - in place of the other sources where libfabric's headers were not there at build
 * time. No fabric can be opened, so the other functions are never called. */
#include "channel.h"
#include "fabric.h"
#include "fabric_find.h"
#include "fabric_memory.h"
#include <base/error.h>

#include <errno.h>

static int fabric_unavailable(void) {
    return dd_error(-ENOSYS, "this build has no libfabric (configure --with-ofi)");
}

bool fabric_devices(void) {
    return false;
}
int fabric_find(const char *wanted, const char *node, char name[FABRIC_NAME_MAX]) {
    return fabric_unavailable();
}
int fabric_open(struct fabric **out, int epoll_fd, const char *name, const char *node) {
    return fabric_unavailable();
}
void fabric_close(struct fabric *f) {
}
const char *fabric_name(const struct fabric *f) {
    return "";
}
size_t fabric_address(const struct fabric *f, uint8_t address[FABRIC_ADDRESS_MAX]) {
    return 0;
}
void fabric_work(struct fabric *f) {
}
void fabric_deafen(struct fabric *f, bool deaf) {
}

int channel_new(struct channel **out, struct fabric *f, const struct channel_ops *ops, void *arg) {
    return -ENOSYS;
}
uint32_t channel_id(const struct channel *c) {
    return 0;
}
int channel_connect(struct channel *c, const uint8_t *address, size_t len, uint32_t id,
                    const uint8_t sends[CHANNEL_TOKEN], const uint8_t takes[CHANNEL_TOKEN]) {
    return -ENOSYS;
}
void channel_free(struct channel *c) {
}
int channel_send(struct channel *c, struct msg *m, const void *head, size_t head_len,
                 const void *body, size_t body_len, void (*done)(void *arg), void *done_arg) {
    return -ENOSYS;
}
size_t channel_queued(const struct channel *c) {
    return 0;
}
uint64_t channel_position(const struct channel *c) {
    return 0;
}
bool channel_unsent(const struct channel *c, uint64_t position) {
    return false;
}
void channel_pause(struct channel *c, bool paused) {
}
uint64_t channel_taken(const struct channel *c) {
    return 0;
}
void channel_heard(struct channel *c, uint64_t taken) {
}

int fabric_share(struct fabric *f, uint8_t *base, uint64_t from, uint64_t len) {
    return fabric_unavailable();
}
bool fabric_shares(const struct fabric *f) {
    return false;
}
int fabric_places(struct fabric *f, uint64_t off, uint64_t len, uint64_t top,
                  struct fabric_place *place, unsigned n) {
    return fabric_unavailable();
}
void fabric_forget(struct fabric *f, uint64_t off, uint64_t len) {
}
bool fabric_has_hardware(const char *name) {
    return false;
}
int channel_read(struct channel *c, void *to, const struct fabric_place *from,
                 void (*done)(void *arg, int code), void *arg) {
    return -ENOSYS;
}
