/* SPDX-License-Identifier: Apache-2.0 */
/* client_lives_pieces.h - a client that puts a value piece by piece, by hand. */
#ifndef DDICT_TESTS_CLIENT_LIVES_PIECES_H
#define DDICT_TESTS_CLIENT_LIVES_PIECES_H

#include <stddef.h>
#include <stdint.h>

enum pieces {
    PIECES_OLD,    /* it goes on with pieces of before, then sends the value again */
    PIECES_EARLY,  /* it has a number of a REWIND that never came */
    PIECES_LATER,  /* ... a later one than came */
    PIECES_GIVE_UP /* it had sent all, and gives up before it takes the REWIND */
};
/* In a child process: begins the put, writes a byte to `begun`, and awaits the owner's death, but for
 * PIECES_EARLY. Exits with 0 if all went as it must. */
void pieces_send(enum pieces how, const char *key, const uint8_t *value, size_t len, int begun);

#endif
