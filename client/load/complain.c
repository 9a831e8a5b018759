/* SPDX-License-Identifier: Apache-2.0 */
/* complain.c - tell the user of an error, complain.h */
#include "complain.h"

#include "load.h"
#include "text_json.h"
#include <base/error.h>
#include <base/verb.h>

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void load_complain(const char *sentence, int code) {
    /* the sentence may come from another process: remove control characters */
    dd_error(code, "%s", sentence);
    sentence = dd_errmsg();
    if (!the_load.o || !the_load.o->report)
        verb_say("%s", sentence);
    json_t *o =
        the_load.o && the_load.o->json
            ? json_pack("{s:o,s:i}", "error", text_json(sentence, strlen(sentence)), "code", code)
            : NULL;
    char *text = o ? json_dumps(o, JSON_COMPACT) : NULL;
    if (text)
        puts(text);
    fflush(stdout);
    free(text);
    json_decref(o);
}
