/* SPDX-License-Identifier: Apache-2.0 */
/* manager_prefetch.c - which keys are fetched ahead while the dictionary is frozen: two nodes. */
#include "unit.h"
#include <base/defaults.h>
#include <ddict_types.h>
#include <manager/forward.h>
#include <manager/peer_client.h>
#include <manager/prefetch.h>
#include <manager/requester.h>

static struct manager m;
static struct manager_setup setup;
static struct requester client;
static bool refilling;
static unsigned asked;
static uint32_t patience_ms;
static uint64_t taken;

/* --- what it uses --- */
int forward_begin(struct requester *a, const struct msg *req, const uint8_t *payload,
                  const uint8_t *key, uint64_t hash, uint32_t to) {
    ck_assert_uint_eq(to, 1);
    asked++;
    patience_ms = req->patience_ms;
    return TAKE_DONE;
}
void forwards_end(struct requester *a) {
}
bool peer_is_refilling(const struct manager *of, uint32_t id) {
    return refilling && id == 1;
}
int store_cache_find(struct store *s, const void *key, uint32_t key_len, struct store_ref *ref) {
    return DDICT_ENOKEY;
}
void requester_init(struct requester *a, struct manager *of, enum requester_kind kind,
                    const struct carrier_ops *ops, uint64_t who) {
    *a = (struct requester){.m = of, .kind = kind, .ops = ops, .who = who};
}
void requester_send(struct requester *a, struct msg *r, const void *payload, size_t len) {
    taken = r->aux;
}
void requester_reply(struct requester *a, const struct msg *req, int status, const char *text) {
    ck_abort_msg("refused");
}

/* Those of node 1. */
static unsigned keys_ask(void) {
    uint8_t records[64 * 8];
    size_t n = 0;
    unsigned others = 0;
    for (uint32_t i = 0; i < 64; i++) {
        uint32_t len = 4;
        memcpy(records + n, &len, sizeof len);
        memcpy(records + n + sizeof len, &i, len);
        others += deal_owner(&setup.deal, records + n + sizeof len, len,
                             key_hash(records + n + sizeof len, len)) == 1;
        n += sizeof len + len;
    }
    struct msg req = {.type = MSG_PREFETCH, .len = (uint32_t)(MSG_HEADER + n)};
    asked = 0;
    ck_assert_int_eq(prefetch_take(&client, &req, records), TAKE_DONE);
    return others;
}

static void before(void) {
    setup = (struct manager_setup){
        .nodes = 2, .managers = 2, .deal = {.owners = 2, .nodes = 2, .keyed = 2}};
    m = (struct manager){.setup = &setup, .frozen = 1};
    client = (struct requester){.m = &m, .kind = REQUESTER_LANE};
    refilling = false;
    ck_assert_int_eq(prefetch_init(&m), 0);
}
static void after(void) {
    prefetch_free(&m);
}

START_TEST(keys_of_other_nodes_are_fetched) {
    unsigned n = keys_ask();
    ck_assert(n > 0 && asked == n && taken == n && patience_ms == 0);
    m.frozen = 0;
    keys_ask();
    ck_assert(asked == 0 && taken == 0);
}
END_TEST

START_TEST(keys_that_are_being_read_again_are_not_awaited) {
    setup.refill = true;
    keys_ask();
    ck_assert(asked > 0 && patience_ms > 0); /* one may be lost when it was asked for already */
    refilling = true;
    keys_ask();
    ck_assert(asked == 0 && taken == 0);
}
END_TEST

UNIT_MAIN_WITH("manager_prefetch", before, after, keys_of_other_nodes_are_fetched,
               keys_that_are_being_read_again_are_not_awaited)
