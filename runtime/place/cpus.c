/* SPDX-License-Identifier: Apache-2.0 */
/* cpus.c - sets of cpus and their texts. */
#include "cpus.h"

#include <ctype.h>
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void cpus_add(struct cpus *c, int cpu) {
    c->word[cpu / 64] |= 1ull << cpu % 64;
}

int cpus_has(const struct cpus *c, int cpu) {
    return cpu >= 0 && cpu < CPUS_MAX && (c->word[cpu / 64] >> cpu % 64 & 1);
}

int cpus_count(const struct cpus *c) {
    return cpus_shared(c, c);
}

int cpus_shared(const struct cpus *a, const struct cpus *b) {
    int n = 0;

    for (int i = 0; i < CPUS_MAX / 64; i++)
        n += __builtin_popcountll(a->word[i] & b->word[i]);
    return n;
}

static int number_scan(const char **s, long *n) {
    char *end;

    if (!isdigit((unsigned char)**s))
        return -EINVAL;
    errno = 0;
    *n = strtol(*s, &end, 10);
    *s = end;
    return errno != 0 || *n >= CPUS_MAX ? -EINVAL : 0;
}

int cpus_list(struct cpus *c, const char *text) {
    struct cpus set = {{0}};

    for (;;) {
        long a, b;

        if (number_scan(&text, &a) < 0)
            return -EINVAL;
        b = a;
        if (*text == '-') {
            text++;
            if (number_scan(&text, &b) < 0 || b < a)
                return -EINVAL;
        }
        for (; a <= b; a++)
            cpus_add(&set, (int)a);
        if (*text == '\0')
            break;
        if (*text++ != ',')
            return -EINVAL;
    }
    *c = set;
    return 0;
}

int cpus_mask(struct cpus *c, const char *text, size_t len) {
    struct cpus set = {{0}};

    if (len > 2 && text[0] == '0' && (text[1] == 'x' || text[1] == 'X')) {
        text += 2;
        len -= 2;
    }
    while (len > 1 && *text == '0') {
        text++;
        len--;
    }
    if (len == 0 || len > CPUS_MAX / 4)
        return -EINVAL;
    for (size_t i = 0; i < len; i++) {
        char digit[2] = {text[len - 1 - i], 0};

        if (!isxdigit((unsigned char)digit[0]))
            return -EINVAL;
        set.word[i / 16] |= strtoull(digit, NULL, 16) << i % 16 * 4;
    }
    *c = set;
    return 0;
}

char *cpus_text(char *buf, size_t cap, const struct cpus *c) {
    size_t at = 0;

    buf[0] = '\0';
    for (int i = 0; i < CPUS_MAX; i++) {
        char part[32];
        int first = i, n;

        if (!cpus_has(c, i))
            continue;
        while (cpus_has(c, i + 1))
            i++;
        n = first == i ? snprintf(part, sizeof part, "%s%d", at ? "," : "", i)
                       : snprintf(part, sizeof part, "%s%d-%d", at ? "," : "", first, i);
        if (at + (size_t)n + sizeof ",..." > cap) {
            snprintf(buf + at, cap - at, ",...");
            break;
        }
        memcpy(buf + at, part, (size_t)n + 1);
        at += (size_t)n;
    }
    return buf;
}

int cpus_mine(struct cpus *c) {
    cpu_set_t *set = CPU_ALLOC(CPUS_MAX);
    size_t size = CPU_ALLOC_SIZE(CPUS_MAX);
    int rc = 0;

    if (!set)
        return -ENOMEM;
    if (sched_getaffinity(0, size, set) < 0) {
        rc = -errno;
    } else {
        memset(c, 0, sizeof *c);
        for (int i = 0; i < CPUS_MAX; i++)
            if (CPU_ISSET_S(i, size, set))
                cpus_add(c, i);
    }
    CPU_FREE(set);
    return rc;
}

/* One entry of Slurm's list, "0x3", "7" or either with "*4" behind it (so many tasks in a row): how
 * many tasks, or -EINVAL. */
static int task_entry(struct cpus *c, const char *text, size_t len, int is_mask) {
    const char *star = memchr(text, '*', len);
    size_t body = star ? (size_t)(star - text) : len;
    char word[24];
    long times = 1;

    if (star) {
        size_t n = len - body - 1;

        if (n == 0 || n >= sizeof word)
            return -EINVAL;
        memcpy(word, star + 1, n);
        word[n] = '\0';
        const char *s = word;
        if (number_scan(&s, &times) < 0 || *s != '\0' || times < 1)
            return -EINVAL;
    }
    if (is_mask)
        return cpus_mask(c, text, body) < 0 || cpus_count(c) == 0 ? -EINVAL : (int)times;
    if (body > 2 && text[0] == '0' && (text[1] == 'x' || text[1] == 'X')) {
        char *end;

        if (body >= sizeof word)
            return -EINVAL;
        memcpy(word, text, body);
        word[body] = '\0';
        unsigned long cpu = strtoul(word, &end, 16);
        if (*end != '\0' || cpu >= CPUS_MAX)
            return -EINVAL;
        memset(c, 0, sizeof *c);
        cpus_add(c, (int)cpu);
        return (int)times;
    }
    if (body == 0 || body >= sizeof word)
        return -EINVAL;
    memcpy(word, text, body);
    word[body] = '\0';
    return strpbrk(word, "-,") || cpus_list(c, word) < 0 ? -EINVAL : (int)times;
}

int cpus_tasks(struct cpus *of, int tasks, const char *type, const char *list) {
    int is_mask, done = 0, known;

    if (!type || !list || *list == '\0')
        return -ENOENT;
    is_mask = strstr(type, "mask_cpu") != NULL;
    if (!is_mask && !strstr(type, "map_cpu"))
        return -ENOENT;
    for (const char *at = list; done < tasks;) {
        size_t len = strcspn(at, ",");
        struct cpus set;
        int times = task_entry(&set, at, len, is_mask);

        if (times < 0)
            return -EINVAL;
        while (times-- > 0 && done < tasks)
            of[done++] = set;
        if (at[len] == '\0')
            break;
        at += len + 1;
    }
    for (known = done; done < tasks; done++)
        of[done] = of[done % known];
    return 0;
}
