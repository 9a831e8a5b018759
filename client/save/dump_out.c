/* SPDX-License-Identifier: Apache-2.0 */
/* dump_out.c - write a part: small items through a buffer, large values straight from where they
 * are. */
#include "dump_out.h"

#include "dump_format.h"
#include <base/error.h>
#include <base/io.h>

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#define BUFFER   (4u << 20)
#define STRAIGHT (1u << 20) /* a value of so many bytes is not copied into the buffer */
/* after so many bytes the kernel is told to begin writing, so that the end does not wait for all */
#define SYNC_EVERY (64ull << 20)

static int write_failed(const struct dump_out *o, int rc) {
    return dd_error(rc, "cannot write %s: %s", o->path, strerror(-rc));
}

static int bytes_write(struct dump_out *o, const uint8_t *bytes, uint64_t len) {
    for (uint64_t n; len > 0; bytes += n, len -= n) {
        n = len < SYNC_EVERY ? len : SYNC_EVERY;
        int rc = write_all(o->fd, bytes, n);
        if (rc < 0)
            return write_failed(o, rc);
        o->total.size += n;
        if (o->moved)
            __atomic_fetch_add(o->moved, n, __ATOMIC_RELAXED); /* a figure */
    }
    if (o->total.size - o->synced >= SYNC_EVERY) {
        /* only a hint */
        sync_file_range(o->fd, (off_t)o->synced, (off_t)(o->total.size - o->synced),
                        SYNC_FILE_RANGE_WRITE);
        o->synced = o->total.size;
    }
    return 0;
}

static int dump_flush(struct dump_out *o) {
    int rc = bytes_write(o, o->buffer, o->used);
    o->used = 0;
    return rc;
}

static int dump_put(struct dump_out *o, const void *bytes, uint64_t len) {
    int rc = len > BUFFER - o->used ? dump_flush(o) : 0;
    if (rc < 0 || len == 0)
        return rc;
    if (len >= STRAIGHT)
        return (rc = dump_flush(o)) < 0 ? rc : bytes_write(o, bytes, len);
    memcpy(o->buffer + o->used, bytes, len);
    o->used += len;
    return 0;
}

static int dump_pad(struct dump_out *o, uint64_t len) {
    static const uint8_t zeros[8];
    return dump_put(o, zeros, DUMP_PAD(len));
}

int dump_create(struct dump_out *o, const char *path, const uint8_t id[DUMP_ID], uint32_t writer,
                uint32_t number) {
    struct dump_header h = {.magic = DUMP_MAGIC,
                            .version = htole32(DUMP_VERSION),
                            .writer = htole32(writer),
                            .number = htole32(number)};
    memset(o, 0, sizeof *o);
    o->fd = -1;
    if ((size_t)snprintf(o->path, sizeof o->path, "%s", path) >= sizeof o->path)
        return dd_error(-ENAMETOOLONG, "%.200s...: the path is too long", path);
    memcpy(h.id, id, sizeof h.id);
    o->buffer = malloc(BUFFER);
    o->hash = XXH3_createState();
    if (!o->buffer || !o->hash) {
        dump_abandon(o);
        return dd_error(-ENOMEM, "no memory for writing %s", path);
    }
    XXH3_64bits_reset(o->hash);
    /* a private dictionary stays private */
    o->fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (o->fd < 0) {
        int rc = write_failed(o, -errno);
        dump_abandon(o);
        return rc;
    }
    return dump_put(o, &h, sizeof h);
}

int dump_add(struct dump_out *o, const void *key, size_t klen, const void *val, uint64_t vlen,
             unsigned tag) {
    struct dump_head h = {.magic = htole32(DUMP_ITEM),
                          .klen = htole32((uint32_t)klen),
                          .vlen = htole64(vlen),
                          .tag = htole32(tag)};
    h.value_sum = htole64(XXH3_64bits(val, vlen));
    h.sum = htole64(dump_head_sum(&h, key, klen));
    XXH3_64bits_update(o->hash, &h.sum, sizeof h.sum);
    int rc = dump_put(o, &h, sizeof h);
    rc = rc < 0 ? rc : dump_put(o, key, klen);
    rc = rc < 0 ? rc : dump_pad(o, klen);
    rc = rc < 0 ? rc : dump_put(o, val, vlen);
    rc = rc < 0 ? rc : dump_pad(o, vlen);
    o->total.items++;
    o->total.bytes += vlen;
    return rc;
}

int dump_finish(struct dump_out *o, struct dump_sum *sum) {
    o->total.sum = XXH3_64bits_digest(o->hash);
    struct dump_end e = {.magic = htole32(DUMP_END),
                         .items = htole64(o->total.items),
                         .bytes = htole64(o->total.bytes),
                         .sum = htole64(o->total.sum)};
    int rc = dump_put(o, &e, sizeof e);
    rc = rc < 0 ? rc : dump_flush(o);
    if (rc == 0 && fsync(o->fd) < 0)
        rc = write_failed(o, -errno);
    int fd = o->fd;
    o->fd = -1;
    if (rc == 0 && close(fd) < 0)
        rc = write_failed(o, -errno);
    else if (rc < 0)
        close(fd);
    *sum = o->total;
    if (rc < 0)
        unlink(o->path);
    dump_abandon(o);
    return rc;
}

void dump_abandon(struct dump_out *o) {
    if (o->fd >= 0) {
        close(o->fd);
        unlink(o->path);
    }
    free(o->buffer);
    XXH3_freeState(o->hash);
    memset(o, 0, sizeof *o);
    o->fd = -1;
}
