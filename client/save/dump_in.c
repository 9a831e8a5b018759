/* SPDX-License-Identifier: Apache-2.0 */
/* dump_in.c - read a part; nothing of it is used before it is checked. */
#include "dump_in.h"

#include "dump_format.h"
#include <base/error.h>
#include <base/io.h>

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BUFFER (4u << 20)

static int dump_damaged(const struct dump_in *in, const char *what) {
    return dd_error(-EBADMSG, "%s is damaged: %s, at byte %llu", in->path, what,
                    (unsigned long long)in->at);
}

static int no_memory(const struct dump_in *in) {
    return dd_error(-ENOMEM, "no memory for reading %s", in->path);
}

/* Have the n bytes from in->at on in the buffer. The file has that many. */
static int dump_fill(struct dump_in *in, uint64_t n) {
    if (n <= in->end - in->begin)
        return 0;
    memmove(in->buffer, in->buffer + in->begin, in->end - in->begin);
    in->end -= in->begin;
    in->begin = 0;
    if (n > in->cap) {
        uint8_t *more = realloc(in->buffer, n);
        if (!more)
            return no_memory(in);
        in->buffer = more;
        in->cap = n;
    }
    ssize_t k = read_all(in->fd, in->buffer + in->end, in->cap - in->end);
    if (k < 0)
        return dd_error((int)k, "cannot read %s: %s", in->path, strerror((int)-k));
    in->end += (size_t)k;
    return in->end < n ? dump_damaged(in, "it became shorter while it was read") : 0;
}

static void dump_pass(struct dump_in *in, uint64_t n) {
    in->begin += n;
    in->at += n;
}

int dump_open(struct dump_in *in, const char *path, const uint8_t id[DUMP_ID],
              const struct dump_sum *want) {
    static const uint8_t magic[] = DUMP_MAGIC;
    struct dump_header h;
    struct stat st;
    memset(in, 0, sizeof *in);
    in->path = path;
    in->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    int rc = in->fd < 0 || fstat(in->fd, &st) < 0
                 ? dd_error(-errno, "cannot read %s: %s", path, strerror(errno))
                 : 0;
    if (rc == 0) {
        in->size = (uint64_t)st.st_size;
        in->cap = in->size < BUFFER ? in->size + 1 : BUFFER;
        in->buffer = malloc(in->cap);
        in->hash = XXH3_createState();
        if (in->size != want->size || in->size < sizeof h + sizeof(struct dump_end))
            rc = dd_error(-EBADMSG, "%s is damaged: it has %llu bytes and should have %llu", path,
                          (unsigned long long)in->size, (unsigned long long)want->size);
        else if (!in->buffer || !in->hash)
            rc = no_memory(in);
        else
            rc = dump_fill(in, sizeof h);
    }
    if (rc == 0) {
        XXH3_64bits_reset(in->hash);
        memcpy(&h, in->buffer, sizeof h);
        if (memcmp(h.magic, magic, sizeof magic) != 0)
            rc = dump_damaged(in, "it is no part of a saved dictionary");
        else if (le32toh(h.version) != DUMP_VERSION)
            rc = dd_error(-EBADMSG, "%s is of version %u, and this program reads version %u", path,
                          le32toh(h.version), DUMP_VERSION);
        else if (memcmp(h.id, id, DUMP_ID) != 0)
            rc = dump_damaged(in, "it is of another save than the manifest");
    }
    if (rc < 0) {
        dump_close(in);
        return rc;
    }
    in->total = (struct dump_sum){.size = want->size, .sum = want->sum};
    dump_pass(in, sizeof h);
    return 0;
}

static int end_check(struct dump_in *in) {
    struct dump_end e;
    if (in->at + sizeof e != in->size)
        return dump_damaged(in, "its end is not at the end of the file");
    int rc = dump_fill(in, sizeof e);
    if (rc < 0)
        return rc;
    memcpy(&e, in->buffer + in->begin, sizeof e);
    if (le64toh(e.items) != in->total.items || le64toh(e.bytes) != in->total.bytes ||
        le64toh(e.sum) != XXH3_64bits_digest(in->hash) || le64toh(e.sum) != in->total.sum)
        return dump_damaged(in, "items are missing, or in another order");
    in->done = true;
    return 0;
}

/* Length of the item at in->at; 0: the end; negative: damaged. */
static int64_t item_size(struct dump_in *in, struct dump_head *h) {
    uint64_t left = in->size - in->at;
    if (left < sizeof(struct dump_end))
        return dump_damaged(in, "it breaks off");
    int rc = dump_fill(in, left < sizeof *h ? left : sizeof *h);
    if (rc < 0)
        return rc;
    memset(h, 0, sizeof *h);
    memcpy(h, in->buffer + in->begin, left < sizeof *h ? left : sizeof *h);
    if (le32toh(h->magic) == DUMP_END)
        return 0;
    if (le32toh(h->magic) != DUMP_ITEM || left < sizeof *h)
        return dump_damaged(in, "here should be an item");
    uint64_t klen = le32toh(h->klen), vlen = le64toh(h->vlen), room = left - sizeof *h;
    if (klen == 0 || klen > DDICT_KEY_MAX || klen + DUMP_PAD(klen) > room ||
        vlen > room - klen - DUMP_PAD(klen) || DUMP_PAD(vlen) > room - klen - DUMP_PAD(klen) - vlen)
        return dump_damaged(in, "the lengths of an item are wrong");
    return (int64_t)(sizeof *h + klen + DUMP_PAD(klen) + vlen + DUMP_PAD(vlen));
}

static int item_check(struct dump_in *in, const struct dump_head *h, struct dump_item *item) {
    const uint8_t *at = in->buffer + in->begin + sizeof *h;
    *item = (struct dump_item){.key = at,
                               .klen = le32toh(h->klen),
                               .vlen = le64toh(h->vlen),
                               .tag = le32toh(h->tag) & 0xff};
    item->val = at + item->klen + DUMP_PAD(item->klen);
    if (dump_head_sum(h, item->key, item->klen) != le64toh(h->sum))
        return dump_damaged(in, "the checksum of an item's key is another");
    if (XXH3_64bits(item->val, item->vlen) != le64toh(h->value_sum))
        return dump_damaged(in, "the checksum of an item's value is another");
    XXH3_64bits_update(in->hash, &h->sum, sizeof h->sum);
    in->total.items++;
    in->total.bytes += item->vlen;
    return 0;
}

int dump_next(struct dump_in *in, struct dump_item *items, int max) {
    struct dump_head h;
    int n = 0, rc = 0;
    while (n < max && !in->done) {
        /* Items that were given point into the buffer: read more only before the first. */
        if (n > 0 && in->end - in->begin < sizeof h)
            break;
        int64_t size = item_size(in, &h);
        if (size < 0)
            return (int)size;
        if (size == 0) {
            if (n > 0)
                break;
            rc = end_check(in);
            break;
        }
        if (n > 0 && (uint64_t)size > in->end - in->begin)
            break;
        if ((rc = dump_fill(in, (uint64_t)size)) < 0 || (rc = item_check(in, &h, &items[n])) < 0)
            return rc;
        dump_pass(in, (uint64_t)size);
        n++;
    }
    return rc < 0 ? rc : n;
}

void dump_close(struct dump_in *in) {
    if (in->fd >= 0)
        close(in->fd);
    free(in->buffer);
    XXH3_freeState(in->hash);
    memset(in, 0, sizeof *in);
    in->fd = -1;
}
