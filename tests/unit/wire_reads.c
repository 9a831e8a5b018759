/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wire_reads.c - reading the other end's memory by libfabric (PROTOCOL 10), by its tcp provider.
 * Invariants: what is read are the bytes that are there; nothing can be read without the key of its
 * place, and nothing can be written; a read ends once, whatever becomes of its ends.
 */
#ifdef HAVE_OFI
#include "link_ends.h"
#include <wire/fabric/fabric_find.h>
#include <wire/fabric/fabric_inside.h>
#include <wire/fabric/fabric_memory.h>

#include <rdma/fi_rma.h>
#include <stdio.h>
#include <sys/mman.h>

#define SHARED      (DD_RMA_GRANULE + (24u << 20))
#define SHARED_FROM 12288u
static uint8_t *shared; /* b's; each word tells its offset */
static int reads_over, reads_failed;

static void l_read(void *arg, int code) {
    reads_over++;
    reads_failed += code < 0;
    if (arg)
        ++*(int *)arg;
}

static void fill(uint64_t off, uint64_t len) {
    for (uint64_t i = off / 8; i <= (off + len - 1) / 8; i++)
        ((uint64_t *)(void *)shared)[i] = i * 0x9e3779b97f4a7c15ull;
}

static void begin_sharing(void) {
    begin(1);
    reads_over = reads_failed = 0;
    shared = mmap(NULL, SHARED, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                  -1, 0);
    ck_assert_ptr_ne(shared, MAP_FAILED);
    ck_assert_int_eq(fabric_share(a.setup.fabric, shared, 0, 4096), 0);
    ck_assert_int_eq(fabric_share(b.setup.fabric, shared, SHARED_FROM, SHARED), 0);
    join();
    ck_assert(link_reads(a.l) && link_reads(b.l));
}

static void finish_sharing(void) {
    finish();
    munmap(shared, SHARED);
}

START_TEST(what_is_read_of_the_other_ends_memory_are_its_bytes) {
    /* begin, over the border of two granules, end */
    static const uint64_t edge[] = {SHARED_FROM, DD_RMA_GRANULE - 1000000, SHARED - 2000000};
    static uint8_t to[8][2000000];
    uint64_t seed = 11, top = 0;
    begin_sharing();
    b.echo = true;
    /* values of any size and place, in pieces, with messages between */
    for (uint64_t round = 0; round < 12; round++) {
        struct fabric_place place[8];
        uint64_t off = edge[round % 3] + test_random(&seed) % 1000,
                 len = 1 + test_random(&seed) % 1900000;
        if (off + len > top)
            top = off + len;
        fill(off, len);
        int n = fabric_places(b.setup.fabric, off, len, top, place, 8), begun = 0,
            before = reads_over;
        ck_assert_int_ge(n, 1);
        uint64_t at = 0;
        for (int i = 0; i < n; i++)
            for (uint64_t got = 0, part; got < place[i].len; got += part, at += part) {
                struct msg m = {.type = MSG_LEN, .id = b.next_id + (uint64_t)begun};
                part = 1 + test_random(&seed) % DD_RMA_PIECE;
                if (part > place[i].len - got)
                    part = place[i].len - got;
                struct fabric_place from = {place[i].at + got, place[i].key, part};
                ck_assert_int_eq(link_read(a.l, to[round % 8] + at, &from, l_read, NULL), 0);
                ck_assert_int_eq(link_send(a.l, &m, NULL, 0, NULL, 0, NULL, NULL), 0);
                begun++;
            }
        ck_assert_uint_eq(at, len);
        UNTIL(reads_over == before + begun && a.next_id == b.next_id, 30000);
        ck_assert_int_eq(reads_failed, 0);
        ck_assert_int_eq(memcmp(to[round % 8], shared + off, len), 0);
    }
    struct fabric_place place[1];
    ck_assert_int_eq(fabric_places(b.setup.fabric, SHARED_FROM - 1, 10, top, place, 1), -EINVAL);
    ck_assert_int_eq(fabric_places(b.setup.fabric, SHARED - 1, 2, top, place, 1), -EINVAL);
    finish_sharing();
}
END_TEST

START_TEST(memory_is_registered_as_far_as_it_is_there) {
    struct fabric_place place[8];
    begin_sharing();
    uint64_t step = DD_POPULATE_STEP;
    ck_assert_int_eq(fabric_places(b.setup.fabric, SHARED_FROM, 1000, SHARED_FROM + 1000, place, 8),
                     1);
    ck_assert_uint_eq(b.setup.fabric->share.granule[0].region[0].to, step);
    ck_assert_int_eq(fabric_places(b.setup.fabric, 3 * step - 5, 10, 5 * step, place, 8), 1);
    ck_assert_uint_eq(b.setup.fabric->share.granule[0].region[1].to, 5 * step);
    ck_assert_int_eq(fabric_places(b.setup.fabric, step - 5, 10, 5 * step, place, 8), 2);
    ck_assert_int_eq(fabric_places(b.setup.fabric, step - 5, 10, 5 * step, place, 1), -E2BIG);
    ck_assert_int_eq(
        fabric_places(b.setup.fabric, DD_RMA_GRANULE - 5, 10, DD_RMA_GRANULE + 5, place, 8), 2);
    ck_assert_uint_eq(b.setup.fabric->share.granule[0].n, 3);
    fabric_forget(b.setup.fabric, 7 * step, 100); /* the whole granule, and no other */
    ck_assert_uint_eq(b.setup.fabric->share.granule[0].n, 0);
    ck_assert_uint_eq(b.setup.fabric->share.granule[1].n, 1);
    ck_assert_int_eq(fabric_places(b.setup.fabric, 3 * step - 5, 10, 5 * step, place, 8), 1);
    finish_sharing();
}
END_TEST

START_TEST(a_wrong_key_or_place_reads_nothing) {
    for (int which = 0; which < 3; which++) {
        static uint8_t to[5000];
        struct fabric_place place, from;
        begin_sharing();
        fill(SHARED_FROM, sizeof to);
        memset(to, 7, sizeof to);
        ck_assert_int_eq(fabric_places(b.setup.fabric, SHARED_FROM, sizeof to,
                                       SHARED_FROM + sizeof to, &place, 1),
                         1);
        from = place;
        if (which == 0) {
            from.key ^= 4;
        } else if (which == 1) {
            /* to beyond the end of what is registered */
            from.at += DD_POPULATE_STEP - SHARED_FROM - 100;
        } else {
            fabric_forget(b.setup.fabric, SHARED_FROM, 1); /* it was right once */
        }
        ck_assert_int_eq(link_read(a.l, to, &from, l_read, NULL), 0);
        UNTIL(reads_over == 1, 15000);
        ck_assert_int_eq(reads_failed, 1);
        for (size_t i = 0; i < sizeof to; i++)
            ck_assert_uint_eq(to[i], 7);
        finish_sharing();
    }
}
END_TEST

START_TEST(nobody_can_write_there) {
    struct fabric_place place;
    static struct op op = {.kind = OP_OTHER};
    static uint8_t bytes[5000];
    fi_addr_t to;
    uint8_t at[FABRIC_ADDRESS_MAX];
    begin_sharing();
    fill(SHARED_FROM, sizeof bytes);
    ck_assert_int_eq(fabric_places(b.setup.fabric, SHARED_FROM, sizeof bytes,
                                   SHARED_FROM + sizeof bytes, &place, 1),
                     1);
    size_t len = fabric_address(b.setup.fabric, at);
    ck_assert_int_eq(fabric_insert(a.setup.fabric, at, len, &to), 0);
    struct fabric_place good = place;
    good.len = 8; /* the connection stands */
    ck_assert_int_eq(link_read(a.l, bytes + 100, &good, l_read, NULL), 0);
    UNTIL(reads_over == 1, 15000);
    memset(bytes, 7, sizeof bytes);
    ck_assert_int_eq(fi_write(a.setup.fabric->ep, bytes, sizeof bytes, NULL, to, place.at,
                              place.key, &op.context),
                     0);
    for (uint64_t end_ms = clock_ms() + 300; clock_ms() < end_ms;)
        io_wait(ep, 20);
    for (uint64_t i = SHARED_FROM / 8; i < (SHARED_FROM + sizeof bytes) / 8; i++)
        ck_assert_uint_eq(((uint64_t *)(void *)shared)[i], i * 0x9e3779b97f4a7c15ull);
    finish_sharing();
}
END_TEST

START_TEST(reads_under_way_end_when_the_other_end_does) {
    for (int which = 0; which < 2; which++) {
        enum { READS = 40 };
        static uint8_t to[READS][DD_RMA_PIECE];
        static int over[READS];
        struct fabric_place place[8], from;
        begin_sharing();
        memset(over, 0, sizeof over);
        fill(SHARED_FROM, READS * DD_RMA_PIECE);
        int n = fabric_places(b.setup.fabric, SHARED_FROM, READS * DD_RMA_PIECE,
                              SHARED_FROM + READS * DD_RMA_PIECE, place, 8);
        ck_assert_int_eq(n, 1);
        for (int i = 0; i < READS; i++) {
            from = (struct fabric_place){place[0].at + (uint64_t)i * DD_RMA_PIECE, place[0].key,
                                         DD_RMA_PIECE};
            ck_assert_int_eq(link_read(a.l, to[i], &from, l_read, &over[i]), 0);
        }
        /* libfabric 1.17 leaves a socket of a connection that is closed before it stands */
        UNTIL(reads_over >= 3, 15000);
        if (which == 0) { /* its process has gone */
            link_free(b.l);
            b.l = NULL;
            fabric_close(b.setup.fabric);
            b.setup.fabric = NULL;
            UNTIL(a.down && reads_over == READS, 15000);
            ck_assert_int_gt(reads_failed, 0);
        } else { /* we have: what the network has is over when it is */
            link_free(a.l);
            a.l = NULL;
            UNTIL(b.down && reads_over == READS, 15000);
        }
        finish();
        ck_assert_int_eq(reads_over, READS);
        for (int i = 0; i < READS; i++)
            ck_assert_int_eq(over[i], 1);
        munmap(shared, SHARED);
    }
}
END_TEST

START_TEST(an_end_that_shares_nothing_reads_nothing) {
    struct fabric_place from = {0, 0, 8};
    uint64_t to;
    begin(1);
    ck_assert_int_eq(fabric_share(a.setup.fabric, (uint8_t *)&to, 0, sizeof to), 0);
    join();
    ck_assert(!link_reads(a.l) && !link_reads(b.l));
    ck_assert_int_lt(link_read(a.l, &to, &from, l_read, NULL), 0);
    finish();
}
END_TEST

int main(void) {
    Suite *s = suite_create("wire_reads");
    TCase *c = tcase_create("reads");
    if (fabric_find("tcp", "localhost", provider) < 0) {
        fprintf(stderr, "wire_reads: %s\n", dd_errmsg());
        return 77;
    }
    tcase_set_timeout(c, 120);
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_test(c, what_is_read_of_the_other_ends_memory_are_its_bytes);
    tcase_add_test(c, memory_is_registered_as_far_as_it_is_there);
    tcase_add_test(c, a_wrong_key_or_place_reads_nothing);
    tcase_add_test(c, nobody_can_write_there);
    tcase_add_test(c, reads_under_way_end_when_the_other_end_does);
    tcase_add_test(c, an_end_that_shares_nothing_reads_nothing);
    suite_add_tcase(s, c);
    return wire_main(s);
}
#else
int main(void) {
    return 77;
} /* built without libfabric */
#endif
