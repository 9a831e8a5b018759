/* SPDX-License-Identifier: Apache-2.0 */
/* request.c - what a job asks for, as one line of text: ELECTION 5. */

#include "request.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

int request_write(char *text, size_t cap, const struct ask_options *ask) {
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:,+=@~";
    size_t n = 0;
    int i;

    if (cap > 0)
        *text = '\0'; /* if nothing is asked for */
    for (i = 0; i < OPTS; i++) {
        const char *c = ask->value[i];

        if (!c || (option_rows[i].of & OF_UP) == 0)
            continue;
        n += (size_t)snprintf(text + n, cap - n, "%s%s=", n > 0 ? " " : "", option_rows[i].option);
        for (; *c != '\0' && n < cap; c++)
            n += (size_t)snprintf(text + n, cap - n, strchr(plain, *c) ? "%c" : "%%%02X",
                                  (unsigned char)*c);
        if (n >= cap)
            return -ENOSPC;
    }
    return (int)n;
}

static int hex_digit(char c) {
    static const char digits[] = "0123456789ABCDEF";
    const char *at = c != '\0' ? strchr(digits, c) : NULL;

    return !at ? -1 : (int)(at - digits);
}

/* In place; 0 or -EINVAL. */
static int request_unescape(char *text) {
    char *to = text;

    for (; *text != '\0'; text++) {
        if (*text == '%') {
            int high = hex_digit(text[1]), low = high < 0 ? -1 : hex_digit(text[2]);

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
    char *word, *value, *save;
    int i;

    memset(ask, 0, sizeof *ask);
    for (word = strtok_r(text, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
        value = strchr(word, '=');
        if (!value || request_unescape(word) < 0)
            return -EINVAL;
        *value++ = '\0';
        for (i = 0; i < OPTS; i++)
            if ((option_rows[i].of & OF_SRUN) != 0 && (option_rows[i].of & OF_UP) != 0 &&
                strcmp(word, option_rows[i].option) == 0)
                break;
        if (i == OPTS)
            return -EINVAL;
        ask->value[i] = value;
    }
    return 0;
}
