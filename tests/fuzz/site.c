/* SPDX-License-Identifier: Apache-2.0 */
/* site.c - the file ddict.conf, and its words on the plugin's line in plugstack.conf. */
#include "fuzz.h"
#include <launch/site.h>
#include <launch/text_keep.h>

#include <errno.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char why[400] = "", buf[64];
    struct settings s = {0};
    int e = site_read_file(&s, fuzz_file(data, size), why, sizeof why);
    fuzz_must(e == 0 || e == -EINVAL);
    fuzz_must(e == 0 ? !*why : *why && !strchr(why, '\n'));
    if (e == 0)
        e = settings_complete(&s, why, sizeof why);
    fuzz_must(e == 0 || e == -EINVAL);
    for (int o = 0; e == 0 && o < OPTS; o++) {
        const char *told = settings_write(&s, (enum option_id)o, buf, sizeof buf);
        if (told)
            fuzz_read(told, strlen(told));
    }
    text_keep_clear();
    return 0;
}
