/* SPDX-License-Identifier: Apache-2.0 */
/* stats_metrics.c - the figures of the managers as OpenMetrics. */
#include "stats_metrics.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* Whose figure it is, and of what (NULL: of all). */
struct sample {
    const char *name, *of, *node;
    json_int_t manager;
};

static void sample_print(const struct sample *s, const json_t *value) {
    printf("ddict_%s{manager=\"%" JSON_INTEGER_FORMAT "\",node=%s", s->name, s->manager, s->node);
    if (s->of)
        printf(",of=\"%s\"", s->of);
    if (json_is_real(value))
        printf("} %.17g\n", json_real_value(value));
    else
        printf("} %" JSON_INTEGER_FORMAT "\n", json_integer_value(value));
}

/* The samples of one metric of one manager. within: the name of the object that it is in, or NULL. */
static int samples_print(const json_t *manager, const char *name, const char *within,
                         const char *field) {
    /* in quotes, with what is special escaped */
    char *node = json_dumps(json_object_get(manager, "node"), JSON_ENCODE_ANY);
    struct sample s = {.name = name,
                       .node = node,
                       .manager = json_integer_value(json_object_get(manager, "manager_id"))};
    const json_t *value;
    if (!node)
        return -ENOMEM;
    if (!within)
        sample_print(&s, json_object_get(manager, name));
    else
        json_object_foreach(json_object_get(manager, within), s.of, value)
            sample_print(&s, field ? json_object_get(value, field) : value);
    free(node);
    return 0;
}

/* A metric: its samples stand together, as OpenMetrics wants it. */
static int metric_print(const json_t *all, const char *name, const char *within,
                        const char *field) {
    const json_t *manager;
    size_t i;
    int rc = 0;
    printf("# TYPE ddict_%s gauge\n", name);
    json_array_foreach(all, i, manager) if (rc == 0) rc =
        samples_print(manager, name, within, field);
    return rc;
}

/* The metrics of the object `name`: of its numbers, or of each number of the objects in it. */
static int object_print(const json_t *all, const char *name, json_t *object) {
    json_t *first = json_object_iter_value(json_object_iter(object)), *value;
    const char *field;
    char both[128];
    int rc = 0;
    if (!json_is_object(first))
        return metric_print(all, name, name, NULL);
    json_object_foreach(first, field, value) {
        snprintf(both, sizeof both, "%s_%s", name, field);
        if (rc == 0)
            rc = metric_print(all, both, name, field);
    }
    return rc;
}

int stats_metrics_print(const json_t *all) {
    json_t *value;
    const char *name;
    int rc = 0;
    json_object_foreach(json_array_get(all, 0), name, value) {
        if (rc == 0 && json_is_number(value))
            rc = metric_print(all, name, NULL, NULL);
        else if (rc == 0 && json_is_object(value))
            rc = object_print(all, name, value);
    }
    printf("# EOF\n");
    return rc;
}
