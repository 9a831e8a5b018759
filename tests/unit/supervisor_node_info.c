/* SPDX-License-Identifier: Apache-2.0 */
/* supervisor_node_info.c - the node infos of the wire-up: what one node packs the other unpacks,
 * and nothing malformed is taken. */
#include "unit.h"
#include <base/error.h>
#include <base/shadow.h>
#include <supervisor/node_info.h>
#include <supervisor/supervisor.h>
#include <supervisor/transport.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>

static struct supervisor a, b; /* node 2 of 3, which packs; node 0, which takes */
static struct local_manager managers_of_node[2];

static void before(void) {
    memset(&a, 0, sizeof a);
    memset(&b, 0, sizeof b);
    a.nodes = b.nodes = 3;
    a.managers = b.managers = 7;
    a.node_id = 2;
    strcpy(a.node, "localhost");
    a.local = managers_of_node;
    a.local_n = 2; /* managers 2 and 5 */
    managers_of_node[0].port = 1111;
    managers_of_node[1].port = 2222;
    a.control_port = 3333;
    memset(a.public_key, 0xab, sizeof a.public_key);
    memset(a.identity.dict_id, 0xcd, sizeof a.identity.dict_id);
    memset(a.secret_key, 0x5e, sizeof a.secret_key);
    b.keys = calloc(3, sizeof *b.keys);
    b.peers = calloc(7, sizeof *b.peers);
    b.node_names = calloc(3, NODE_NAME_MAX);
    b.control_at = calloc(3, sizeof *b.control_at);
}
static void after(void) {
    free(b.peers);
    free(b.node_names);
    free(b.control_at);
    free(b.keys);
}

/* Owners 0 1 on nodes 0 1, and 3 4; node 2 has no keys, and managers 2 and 5 that forward. Shadows:
 * of 0 and 3 on node 1, of 1 and 4 on node 0. */
static void both_have_replicas(uint32_t node_id) {
    a.deal = b.deal = (struct deal){.owners = 4, .nodes = 3, .keyed = 2};
    a.managers = b.managers = deal_managers(&a.deal);
    a.opt.replicas = b.opt.replicas = 2;
    a.node_id = node_id;
    free(b.peers);
    b.peers = calloc(2 * b.managers, sizeof *b.peers);
}

static uint16_t port_of(const struct sockaddr_storage *s) {
    return ntohs(s->ss_family == AF_INET6
                     ? ((const struct sockaddr_in6 *)(const void *)s)->sin6_port
                     : ((const struct sockaddr_in *)(const void *)s)->sin_port);
}

START_TEST(managers_get_their_node_addresses_and_ports) {
    char error[256];
    size_t len;
    struct node_info *c = node_info_make(&a, NULL, &len);
    ck_assert_int_eq(node_info_check(c, len, 2), 0);
    ck_assert(!node_info_error(c, error, sizeof error));
    ck_assert_uint_lt(len, 200); /* those of a thousand nodes go to every node */
    node_info_apply(&b, c);
    ck_assert_str_eq(b.node_names[2], "localhost");
    ck_assert_str_eq(b.peers[2].node, "localhost");
    ck_assert_str_eq(b.peers[5].node, "localhost");
    ck_assert_int_gt(b.peers[2].naddr, 0);
    for (int i = 0; i < b.peers[2].naddr; i++) {
        ck_assert_uint_eq(port_of(&b.peers[2].addr[i]), 1111);
        ck_assert_uint_eq(port_of(&b.peers[5].addr[i]), 2222);
    }
    ck_assert_str_eq(b.peers[3].node, "");
    ck_assert_uint_eq(b.identity.dict_id[0], 0); /* only node 0's counts */
    ck_assert_mem_eq(b.keys[2], a.public_key, KEY_SIZE);
    ck_assert_ptr_null(memmem(c, len, a.secret_key, 8));
    free(c);
}
END_TEST

START_TEST(shadows_get_theirs) {
    static struct local_manager four[4] = {
        {.port = 1}, {.port = 4}, {.port = 5}, {.port = 8}}; /* their slots */
    size_t len;
    both_have_replicas(1);
    a.local = four;
    a.shadows = four + 2;
    a.shadows_n = 2;
    struct node_info *c = node_info_make(&a, NULL, &len);
    ck_assert_int_eq(node_info_check(c, len, 1), 0);
    ck_assert_int_eq(node_info_agrees(&b, c), 0);
    node_info_apply(&b, c);
    for (uint32_t n = 0; n < 2 * b.managers; n++) {
        bool there = n == 1 || n == 4 || n == 5 || n == 8;
        ck_assert_str_eq(b.peers[n].node, there ? "localhost" : "");
        ck_assert_int_eq(b.peers[n].naddr > 0, there);
        if (there)
            ck_assert_uint_eq(port_of(&b.peers[n].addr[0]), n);
    }
    free(c);
}
END_TEST

START_TEST(all_have_the_same_checkpoints) {
    size_t len;
    a.opt.working_set = 65535;
    a.opt.working_flags = DDICT_WAIT_FOR_KEYS;
    struct node_info *c = node_info_make(&a, NULL, &len);
    ck_assert_int_eq(node_info_check(c, len, 2), 0);
    ck_assert_int_eq(node_info_agrees(&b, c), DDICT_EPROTO);
    ck_assert_str_eq(dd_errmsg(),
                     "node 2 was started for 65535 checkpoints (flags 1), this one for 0 (0)");
    b.opt.working_set = 65535;
    ck_assert_int_eq(node_info_agrees(&b, c), DDICT_EPROTO);
    b.opt.working_flags = DDICT_WAIT_FOR_KEYS;
    ck_assert_int_eq(node_info_agrees(&b, c), 0);
    free(c);
}
END_TEST

START_TEST(all_or_none_read_again) {
    size_t len;
    a.opt.refill = true;
    struct node_info *c = node_info_make(&a, NULL, &len);
    ck_assert_int_eq(node_info_check(c, len, 2), 0);
    ck_assert_int_eq(node_info_agrees(&b, c), DDICT_EPROTO);
    ck_assert_str_eq(dd_errmsg(), "node 2 was started with --refill, this one without");
    b.opt.refill = true;
    ck_assert_int_eq(node_info_agrees(&b, c), 0);
    free(c);
}
END_TEST

START_TEST(ports_that_are_nobodys_are_left) {
    static struct local_manager many[9];
    size_t len;
    both_have_replicas(1);
    a.local = many;
    a.shadows = many + 2;
    a.shadows_n = 7; /* of owners 0 3 6 ...: from 6 on there is none */
    struct node_info *c = node_info_make(&a, NULL, &len);
    node_info_apply(&b, c);
    ck_assert_str_eq(b.peers[8].node, "localhost");
    b.opt.replicas = 1;
    free(b.peers);
    b.peers = calloc(b.managers, sizeof *b.peers);
    node_info_apply(&b, c);
    ck_assert_str_eq(b.peers[4].node, "localhost");
    ck_assert_int_eq(node_info_agrees(&b, c), DDICT_EPROTO);
    ck_assert_ptr_nonnull(
        strstr(dd_errmsg(), "node 1 was started for 2 copies of each value, this one for 1"));
    free(c);
}
END_TEST

START_TEST(the_shortest_card_is_good) {
    strcpy(a.node, "n");
    for (a.local_n = 1; a.local_n <= 2; a.local_n++) {
        size_t len;
        struct node_info *c = node_info_make(&a, NULL, &len);
        ck_assert_int_eq(node_info_check(c, len, 2), 0);
        ck_assert_int_eq(node_info_check(c, len - 1, 2), DDICT_EPROTO);
        node_info_apply(&b, c);
        ck_assert_str_eq(b.node_names[2], "n");
        free(c);
    }
}
END_TEST

START_TEST(one_transport_is_agreed_on_by_all_or_none) {
    static const struct {
        const char *asked, *of[3], *all;
        int e;
        const char *rma;
        bool reads;
    } table[] = {
        {"auto", {"", "", ""}, "", 0, "no", false},
        {"auto", {"", "", ""}, "", 0, "auto", false},
        {"ofi", {"tcp;ofi_rxm", "tcp;ofi_rxm", "tcp;ofi_rxm"}, "tcp;ofi_rxm", 0, "auto", false},
        {"ofi", {"tcp;ofi_rxm", "tcp;ofi_rxm", "tcp;ofi_rxm"}, "tcp;ofi_rxm", 0, "yes", true},
        {"ofi",
         {"verbs;ofi_rxm", "verbs;ofi_rxm", "verbs;ofi_rxm"},
         "verbs;ofi_rxm",
         0,
         "auto",
         true},
        {"ofi", {"cxi", "cxi", "cxi"}, "cxi", 0, "no", false},
        {"ofi", {"cxi", "", "cxi"}, "", DDICT_EPROTO, "auto", false},
        {"ofi", {"", "cxi", "cxi"}, "", DDICT_EPROTO, "auto", false},
        {"ofi", {"cxi", "cxi", "cxi"}, "cxi", 0, "auto", true},
        {"ofi", {"cxi", "cxi", "verbs;ofi_rxm"}, "", DDICT_EPROTO, "auto", false},
        {"tcp", {"", "", ""}, "", 0, "auto", false},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        memset(&b.transport, 0, sizeof b.transport);
        b.opt.transport = table[i].asked;
        b.opt.rma = table[i].rma;
        for (uint32_t node = 0; node < 3; node++) {
            size_t len;
            a.node_id = node;
            strcpy(a.transport.own, table[i].of[node]);
            struct node_info *c = node_info_make(&a, NULL, &len);
            ck_assert_int_eq(node_info_check(c, len, node), 0);
            node_info_apply(&b, c);
            free(c);
        }
        ck_assert_int_eq(transport_agree(&b), table[i].e);
        if (table[i].e == 0)
            ck_assert_str_eq(b.transport.all, table[i].all);
        ck_assert_int_eq(b.transport.rma, table[i].reads);
        if (table[i].of[0][0] || table[i].of[1][0])
            ck_assert_str_ne(table[i].e ? dd_errmsg() : b.transport.why, "");
    }
    strcpy(a.transport.own, "");
}
END_TEST

START_TEST(every_node_tells_where_its_ddictd_listens) {
    size_t len;
    struct node_info *c = node_info_make(&a, NULL, &len);
    node_info_apply(&b, c);
    ck_assert_int_gt(b.control_at[2].naddr, 0);
    ck_assert_uint_eq(port_of(&b.control_at[2].addr[0]), 3333);
    ck_assert_int_eq(b.control_at[0].naddr, 0);
    free(c);
}
END_TEST

START_TEST(the_id_and_another_dictionary_are_those_of_node_0) {
    size_t len;
    a.node_id = 0;
    struct node_info *c = node_info_make(&a, NULL, &len);
    node_info_apply(&b, c);
    ck_assert_mem_eq(b.identity.dict_id, a.identity.dict_id, sizeof a.identity.dict_id);
    ck_assert_mem_eq(b.keys[0], a.public_key, KEY_SIZE);
    ck_assert_uint_eq(b.other.managers, 0);
    free(c);
    a.other = (struct standing){.managers = 5, .nodes = 3, .bytes = 1 << 30};
    c = node_info_make(&a, NULL, &len);
    node_info_apply(&b, c);
    ck_assert_uint_eq(b.other.managers, 5);
    ck_assert_uint_eq(b.other.bytes, 1 << 30);
    memset(&a.other, 0, sizeof a.other);
    free(c);
}
END_TEST

START_TEST(an_error_travels_without_ports) {
    char error[256];
    size_t len;
    struct node_info *c = node_info_make(&a, "the name is taken", &len);
    ck_assert_int_eq(node_info_check(c, len, 2), 0);
    ck_assert(node_info_error(c, error, sizeof error));
    ck_assert_str_eq(error, "the name is taken");
    node_info_apply(&b, c);
    ck_assert_str_eq(b.peers[2].node, "");
    free(c);
}
END_TEST

START_TEST(malformed_cards_are_refused) {
    size_t len;
    struct node_info *c = node_info_make(&a, NULL, &len);
    ck_assert_int_eq(node_info_check(c, len, 1), DDICT_EPROTO);
    ck_assert_int_eq(node_info_check(c, len - 1, 2), DDICT_EPROTO);
    ck_assert_int_eq(node_info_check(c, 0, 2), DDICT_EPROTO);
    uint64_t seed = 3;
    for (int i = 0; i < 20000; i++) { /* whatever passes the check must be safe to take */
        uint8_t *copy = malloc(len);
        memcpy(copy, c, len);
        for (int k = 0; k < 3; k++)
            copy[unit_random(&seed) % len] = (uint8_t)unit_random(&seed);
        if (node_info_check(copy, len, 2) == 0)
            node_info_apply(&b, (struct node_info *)(void *)copy);
        free(copy);
    }
    free(c);
}
END_TEST

UNIT_MAIN_WITH("manager_card", before, after, managers_get_their_node_addresses_and_ports,
               shadows_get_theirs, all_have_the_same_checkpoints, all_or_none_read_again,
               ports_that_are_nobodys_are_left, the_shortest_card_is_good,
               one_transport_is_agreed_on_by_all_or_none, every_node_tells_where_its_ddictd_listens,
               the_id_and_another_dictionary_are_those_of_node_0, an_error_travels_without_ports,
               malformed_cards_are_refused)
