/* SPDX-License-Identifier: Apache-2.0 */
/* request.c - what a job asks for as one line of text, which travels from sbatch to the batch script in a variable: HANDSHAKE 5. */
#include "plugin.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const char *const words[ASKS] = {[ASK_MANAGERS] = "--managers=",
                                        [ASK_MEM] = "--mem=",
                                        [ASK_LOG] = "--log=",
                                        [ASK_RESULTS] = "--results=",
                                        [ASK_TRANSPORT] = "--transport=",
                                        [ASK_LOAD] = "--load=",
                                        [ASK_RESTORE] = "--restore=",
                                        [ASK_SAVE] = "--save=",
                                        [ASK_SPILL] = "--spill="};

int request_write(char *text, size_t cap, const struct ask_options *ask) {
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:,+=@~";
    size_t n = 0;
    int i;

    for (i = 0; i < ASKS; i++) {
        const char *c = ask->value[i];

        if (c == NULL || words[i] == NULL)
            continue;
        n += (size_t)snprintf(text + n, cap - n, "%s%s", n > 0 ? " " : "", words[i]);
        for (; *c != '\0' && n < cap; c++)
            n += (size_t)snprintf(text + n, cap - n, strchr(plain, *c) != NULL ? "%c" : "%%%02X",
                                  (unsigned char)*c);
        if (n >= cap)
            return -ENOSPC;
    }
    return (int)n;
}

static int digit(char c) {
    static const char digits[] = "0123456789ABCDEF";
    const char *at = c != '\0' ? strchr(digits, c) : NULL;

    return at == NULL ? -1 : (int)(at - digits);
}

/* In place; 0 or -EINVAL. */
static int unescape(char *text) {
    char *to = text;

    for (; *text != '\0'; text++) {
        if (*text == '%') {
            int high = digit(text[1]), low = high < 0 ? -1 : digit(text[2]);

            if (low < 0 || high * 16 + low == 0)
                return -EINVAL;
            *to++ = (char)(high * 16 + low);
            text += 2;
        } else {
            *to++ = *text;
        }
    }
    *to = '\0';
    return 0;
}

int request_read(char *text, struct ask_options *ask) {
    char *word, *save;
    int i;

    memset(ask, 0, sizeof *ask);
    for (word = strtok_r(text, " ", &save); word != NULL; word = strtok_r(NULL, " ", &save)) {
        for (i = 0; i < ASKS; i++)
            if (words[i] != NULL && strncmp(word, words[i], strlen(words[i])) == 0)
                break;
        if (i == ASKS || unescape(word) < 0)
            return -EINVAL;
        ask->value[i] = word + strlen(words[i]);
    }
    return 0;
}
