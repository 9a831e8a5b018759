/* SPDX-License-Identifier: Apache-2.0 */
/* site.c - read the administrator's words: the file ddict.conf and the plugin's line in
 * plugstack.conf. */
#include "site.h"

#include <base/size.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The line without comment and blanks at both ends, in place. */
static char *line_strip(char *line) {
    size_t n;

    line[strcspn(line, "#\n")] = '\0';
    line += strspn(line, " \t\r");
    n = strlen(line);
    while (n > 0 && strchr(" \t\r", line[n - 1]))
        line[--n] = '\0';
    return line;
}

int site_read_file(struct settings *s, const char *path, char *why, size_t cap) {
    FILE *f = fopen(path, "re");
    char where[SITE_TEXT + 32], *line = NULL;
    size_t room = 0;
    int rc = 0, n = 0;

    if (!f) {
        rc = -errno;
        snprintf(why, cap, "%s: %s", path, strerror(-rc));
        return rc == -ENOENT || rc == -ENOTDIR ? 0 : rc;
    }
    errno = 0;
    while (rc == 0 && getline(&line, &room, f) >= 0) {
        char *text = line_strip(line);

        snprintf(where, sizeof where, "%s line %d", path, ++n);
        if (*text != '\0')
            rc = settings_take_word(s, text, where, why, cap);
    }
    if (rc == 0 && ferror(f)) {
        rc = errno != 0 ? -errno : -EIO;
        snprintf(why, cap, "%s: %s", path, strerror(-rc));
    }
    free(line);
    fclose(f);
    return rc;
}

int site_read(struct settings *s, char *why, size_t cap) {
    return site_read_file(s, DDICT_SYSCONFDIR "/ddict.conf", why, cap);
}

int site_judge(const struct settings *s, uint32_t managers, uint64_t mem, char *why, size_t cap) {
    uint64_t max_managers = number_of(s, OPT_MAX_MANAGERS), max_mem = number_of(s, OPT_MAX_MEM);
    char have[16], most[16];

    if (max_managers != 0 && managers > max_managers)
        snprintf(why, cap, "%s=%u: at most %u on this cluster", settings_name(s, OPT_MANAGERS),
                 managers, (unsigned)max_managers);
    else if (max_mem != 0 && mem > max_mem)
        snprintf(why, cap, "%s of %s: at most %s on this cluster", settings_name(s, OPT_MEM),
                 size_format(have, sizeof have, mem), size_format(most, sizeof most, max_mem));
    else
        return 0;
    return -EINVAL;
}

int site_judge_share(const struct settings *s, enum option_id asked, uint64_t mem, unsigned copies,
                     uint64_t share, const char *node, uint64_t room, char *why, size_t cap) {
    const struct amount *limit = &s->of[OPT_MAX_MEM_SHARE].amount;
    char all[16], part[16], have[16], most[16], text[16];

    if (limit->share == 0 || room == 0 || share <= amount_bytes(limit, room))
        return 0;
    snprintf(
        why, cap,
        "%s of %s%s is %s on node %s, where the job has %s: on this cluster at most %s of that, %s",
        settings_name(s, asked), size_format(all, sizeof all, mem), copies_text(copies),
        size_format(part, sizeof part, share), node, size_format(have, sizeof have, room),
        amount_format(text, sizeof text, limit),
        size_format(most, sizeof most, amount_bytes(limit, room)));
    return -EINVAL;
}
