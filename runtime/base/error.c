/* SPDX-License-Identifier: Apache-2.0 */
/* error.c - the text of every code, and the error sentence of the calling thread. */
#include "error.h"

#include "text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define ERRNO_MAX 133 /* EHWPOISON, the last number Linux gives */

static __thread char sentence[DD_ERRMSG_MAX];
static __thread int plain; /* the failure when sentence is empty */
static __thread int kind_of_it;

static void sentence_set(int kind, const char *fmt, va_list ap) {
    char text[DD_ERRMSG_MAX]; /* an argument may be dd_errmsg() itself */
    vsnprintf(text, sizeof text, fmt, ap);
    memcpy(sentence, text_plain(text), sizeof sentence);
    kind_of_it = kind;
}

int dd_error(int code, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    sentence_set(0, fmt, ap);
    va_end(ap);
    return code;
}

int dd_error_kind(int code, int kind, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    sentence_set(kind, fmt, ap);
    va_end(ap);
    return code;
}

int dd_errkind(void) {
    return kind_of_it;
}

int dd_error_plain(int code) {
    sentence[0] = 0;
    kind_of_it = 0;
    plain = code;
    return code;
}

const char *dd_errmsg(void) {
    return sentence[0] == 0 && plain != 0 ? dd_strerror(plain) : sentence;
}

const char *dd_strerror(int code) {
    switch (code) {
    case DDICT_ENOKEY:
        return "the key is not in the dictionary";
    case DDICT_ERETIRED:
        return "the checkpoint was retired: it is older than those of the working set";
    case DDICT_EEXISTS:
        return "the key is in the dictionary already";
    case DDICT_EFULL:
        return "the manager of this key has no room";
    case DDICT_ENODICT:
        return "no dictionary: DDICT_NAME is not set or nothing listens under it on this node";
    case DDICT_EGONE:
        return "the dictionary has ended";
    case DDICT_ELOST:
        return "a manager or its node was lost";
    case DDICT_EVERSION:
        return "the managers speak another protocol version than this library";
    case DDICT_ECRED:
        return "the dictionary's name is held by a process of another user";
    case DDICT_EVIEWS:
        return "too many views are held by this process";
    case DDICT_EPROTO:
        return "malformed message or damaged arena";
    case DDICT_EAUTH:
        return "a peer did not prove that it belongs to this job";
    case DDICT_EKEYSIZE:
        return "a key has 1 to 65536 bytes";
    case DDICT_EVALSIZE:
        return "the value is larger than a whole manager";
    case DDICT_ESMALL:
        return "the buffer is smaller than the value";
    case DDICT_EFROZEN:
        return "the dictionary is frozen: nothing can be written until it is unfrozen";
    case DDICT_EBUSY:
        return "as many requests of this process wait as may";
    case DDICT_EKEYLOST:
        return "there is no such key, and it may have been lost with a node";
    case DDICT_ESEALED:
        return "the value is of a data set that can be read again (refill): only the set can be "
               "replaced or removed";
    case DDICT_ELINK:
        return "the value lies near who put it";
    case DDICT_ENOTINT:
        return "the value is no integer of 64 bits";
    case DDICT_ECHANGED:
        return "the key has another version, or is absent or present";
    }
    if (code > 0)
        return "success (a count)";
    if (code == 0)
        return "success";
    return code >= -ERRNO_MAX ? strerror(-code) : "unknown error code";
}
