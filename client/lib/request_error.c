/* SPDX-License-Identifier: Apache-2.0 */
/* request_error.c - error codes and sentences of failed requests. */
#include "handle.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int request_error(struct session *s, struct node_manager *m, struct request *r, int code) {
    if (code == -ESTALE) { /* it only reads, and there is no time to ask again */
        dd_error(code = -ETIMEDOUT, "no answer in time");
        request_drop(r);
        return code;
    }
    /* the manager only says how it noticed; the dictionary says why it ended */
    if (code == DDICT_ELOST && !status_page_serves(s->status_page))
        code = session_state_error(s);
    else if (r->text && r->text[0] != 0)
        dd_error(code, "%s", r->text);
    else if (code == DDICT_EPROTO)
        dd_error(code, "manager %u answered something that makes no sense", m->id);
    else if (code == DDICT_ENOKEY || code == DDICT_EEXISTS || code == DDICT_ESMALL ||
             code == DDICT_ENOTINT || code == DDICT_ECHANGED || code == -ENOMEM)
        dd_error(code, "%s", dd_strerror(code));
    else
        dd_error(code, "manager %u refused: %s", m->id, dd_strerror(code));
    request_drop(r);
    return code;
}

const char *ddict_strerror(int code) {
    return dd_strerror(code);
}
const char *ddict_errmsg(void) {
    return dd_errmsg();
}
const char *ddict_version(void) {
    return DDICT_VERSION_STRING;
}
