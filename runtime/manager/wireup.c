/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wireup.c - who are we among the nodes, and what are the others' addresses: through PMIx, or through the one that started us (stdio), or nobody. PMIx is ended
 * before the managers are forked, so they are forked from a process of one thread.
 */
#include <base/error.h>
#include <base/log.h>
#include <manager/supervisor.h>
#include <place/place.h>
#include <wire/auth.h>

#include <dirent.h>
#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct place place;

int wireup_place(struct supervisor *s) {
    int e = 0;
    if (sodium_init() < 0)
        return dd_error(-EIO, "libsodium can not start");
    s->nodes = s->opt.nodes;
    s->node_id = s->opt.node_id;
    if (s->opt.wireup == WIREUP_PMIX) {
        e = place_init(&place, 1);
        if (e < 0)
            return e;
        s->nodes = (uint32_t)place.size;
        s->node_id = (uint32_t)place.rank;
    }
    s->managers = s->opt.managers ? s->opt.managers : s->nodes;
    if (s->managers < s->nodes)
        s->managers = s->nodes; /* each node needs one that stands for the others */
    s->node_names = calloc(s->nodes, NODE_NAME_MAX);
    if (s->nodes > 1)
        s->peers = calloc(s->managers, sizeof *s->peers);
    if (s->nodes > 1)
        s->control_at = calloc(s->nodes, sizeof *s->control_at);
    if (s->nodes > 1)
        s->keys = calloc(s->nodes, sizeof *s->keys);
    if (!s->node_names || (s->nodes > 1 && (!s->peers || !s->control_at || !s->keys)))
        return dd_error(-ENOMEM, "no memory for %u nodes", s->nodes);
    auth_pair(s->secret_key, s->public_key);
    if (s->opt.has_id)
        memcpy(s->identity.dict_id, s->opt.dict_id, sizeof s->identity.dict_id);
    else
        randombytes_buf(s->identity.dict_id, sizeof s->identity.dict_id);
    return 0;
}

/* --- stdio: base64 over the starter --- */
static int stdio_say(struct supervisor *s, const void *card, size_t len) {
    size_t cap = sodium_base64_ENCODED_LEN(len, sodium_base64_VARIANT_ORIGINAL);
    char *text = malloc(cap), head[32];
    if (!text)
        return -ENOMEM;
    sodium_bin2base64(text, cap, card, len, sodium_base64_VARIANT_ORIGINAL);
    snprintf(head, sizeof head, "card %u", s->node_id);
    say_text(head, text);
    sodium_memzero(text, cap);
    free(text);
    return 0;
}

static int stdio_cards(struct supervisor *s, char *line, void **cards, size_t *lens) {
    char *save = NULL, *word = strtok_r(line, " \r", &save);
    if (!word || strcmp(word, "cards") != 0)
        return dd_error(DDICT_EPROTO, "stdin: a line `cards` was expected");
    for (uint32_t i = 0; i < s->nodes; i++) {
        word = strtok_r(NULL, " \r", &save);
        if (!word)
            return dd_error(DDICT_EPROTO, "stdin: %u cards of %u", i, s->nodes);
        size_t cap = strlen(word);
        cards[i] = malloc(cap + 1);
        if (!cards[i])
            return -ENOMEM;
        if (sodium_base642bin(cards[i], cap, word, cap, NULL, &lens[i], NULL,
                              sodium_base64_VARIANT_ORIGINAL) != 0)
            return dd_error(DDICT_EPROTO, "stdin: card %u is not base64", i);
    }
    return 0;
}

static int stdio_exchange(struct supervisor *s, const void *card, size_t len, void **cards,
                          size_t *lens) {
    char *line;
    int e = stdio_say(s, card, len);
    if (e < 0)
        return e;
    e = input_line(s, &line, DD_FENCE_MS);
    if (e == 0)
        return dd_error(-EPIPE, "stdin ended before the cards of the other nodes came");
    if (e < 0)
        return dd_error(e, "no cards of the other nodes on stdin within %d s", DD_FENCE_MS / 1000);
    e = stdio_cards(s, line, cards, lens);
    sodium_memzero(line, strlen(line));
    free(line);
    return e;
}

/* --- all --- */
static unsigned threads_now(void) {
    DIR *d = opendir("/proc/self/task");
    unsigned n = 0;
    if (!d)
        return 1;
    for (struct dirent *e; (e = readdir(d));)
        n += e->d_name[0] != '.';
    closedir(d);
    return n;
}

/* Of the other nodes' public keys, which the cards brought: what we have with each of them alone. */
static int keys_make(struct supervisor *s) {
    uint8_t key[KEY_SIZE];
    for (uint32_t i = 0; s->keys && i < s->nodes; i++) {
        if (auth_key(key, s->secret_key, s->public_key, s->keys[i], s->identity.dict_id) < 0)
            return dd_error(DDICT_EAUTH, "the card of node %u has no key", i);
        memcpy(s->keys[i], key, sizeof key);
    }
    auth_forget(key, sizeof key);
    auth_forget(s->secret_key, sizeof s->secret_key);
    s->identity.keys = (const uint8_t(*)[KEY_SIZE])s->keys;
    s->identity.nodes = s->nodes;
    return 0;
}

static int cards_take(struct supervisor *s, void **cards, size_t *lens) {
    int e = 0;
    for (uint32_t i = 0; i < s->nodes; i++) {
        if ((e = card_check(cards[i], lens[i], i)) < 0)
            return e;
        card_take(s, cards[i]);
        if (s->other.managers)
            return 1; /* then no error of another node matters */
    }
    for (uint32_t i = 0; i < s->nodes; i++) {
        char error[256];
        const char *name = s->node_names[i];
        if (!card_error(cards[i], error, sizeof error))
            continue;
        return strstr(error, name) ? dd_error(-ECANCELED, "%s", error)
                                   : dd_error(-ECANCELED, "node %s: %s", name, error);
    }
    if ((e = keys_make(s)) < 0 || (e = transport_agree(s)) < 0)
        return e;
    for (uint32_t m = 0; s->peers && m < s->managers; m++)
        if (!s->peers[m].node[0])
            return dd_error(DDICT_EPROTO, "node %u serves fewer managers than it should",
                            m % s->nodes);
    return 0;
}

int wireup_exchange(struct supervisor *s, const char *error) {
    size_t len;
    struct card *card = card_make(s, error, &len);
    void **cards = calloc(s->nodes, sizeof *cards);
    size_t *lens = calloc(s->nodes, sizeof *lens);
    int e = -ENOMEM;
    if (card && cards && lens) {
        if (s->opt.wireup == WIREUP_PMIX)
            e = place_exchange_until(&place, card, len, cards, lens, card_exists, DD_FENCE_MS);
        else if (s->opt.wireup == WIREUP_STDIO)
            e = stdio_exchange(s, card, len, cards, lens);
        else if ((cards[0] = malloc(len))) {
            memcpy(cards[0], card, len);
            lens[0] = len;
            e = 0;
        }
    }
    if (s->opt.wireup == WIREUP_PMIX)
        place_finalize(&place);
    if (e == 0) {
        e = cards_take(s, cards, lens);
        s->cards_only = e != 0 && s->opt.wireup == WIREUP_PMIX && s->nodes > 1;
    }
    for (uint32_t i = 0; cards && i < s->nodes; i++)
        free(cards[i]);
    free(cards);
    free(lens);
    if (card)
        sodium_memzero(card, len);
    free(card);
    unsigned threads = threads_now();
    if (threads > 1)
        log_warn("%u threads are left of the wire-up", threads - 1);
    return e;
}
