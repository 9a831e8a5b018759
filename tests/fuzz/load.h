/* SPDX-License-Identifier: Apache-2.0 */
/*
 * load.h - the fuzz targets of `ddict load`: a file is planned and read as by ddict-load, with the
 * real plan, sink and set, into fake_dict.c. One target for each kind of source:
 *
 *     LOAD_TARGET(source_tar)
 */
#ifndef DDICT_TESTS_FUZZ_LOAD_H
#define DDICT_TESTS_FUZZ_LOAD_H

#include "fake_dict.h"
#include "fuzz.h"

#include <load/batch_writer.h>
#include <load/format/sources.h>
#include <load/load.h>
#include <load/plan.h>
#include <load/set.h>

enum { LOAD_VALUE_MAX = 4 << 20 };

/* many: 2^16 records may come of it, else 2^12: fake_dict.c looks one by one. */
static inline void load_begin(const struct source_kind *kind, const char *path, bool many) {
    static struct origin origin;
    static const char *sources[1];
    static struct load_options options = {
        .prefix = "", .skip = true, .nsources = 1, .sources = sources};
    origin = (struct origin){path, kind};
    sources[0] = path;
    memset(&the_load, 0, sizeof the_load);
    the_load.o = &options;
    the_load.origins = &origin;
    the_load.workers = 1;
    the_load.manager_bytes = fake_dict_value_max = LOAD_VALUE_MAX;
    the_load.info.total_bytes = many ? LOAD_VALUE_MAX : LOAD_VALUE_MAX / 16;
    strcpy(the_load.set, "set");
    strcpy(the_load.id, "id");
    strcpy(the_load.run, "run");
}

/* All units of the plan, and the set that names what they brought. */
static inline void load_read(struct sink *s, const struct load_plan *p) {
    struct set_result r = {0};
    uint64_t bytes, n;
    for (n = 0; n < p->units && sink_unit(s, n) == 0; n++)
        continue;
    fuzz_must(fake_dict_items(&bytes) <= the_load.figures.items);
    fuzz_must(bytes <= the_load.figures.bytes);
    if (n == p->units && set_write(p, &r) == 0)
        fuzz_must(r.items <= the_load.figures.items + r.links);
    pack_free(&r.failures);
    pack_free(&r.left);
}

static inline void load_take(const struct source_kind *kind, const uint8_t *data, size_t size) {
    static struct sink *sink;
    struct load_plan p, fetched;
    const char *path = fuzz_file(data, size);
    if (!sink)
        fuzz_must((sink = sink_new()));
    kind->match(path, false, data, size < 1024 ? size : 1024);
    load_begin(kind, path, size > 0 && (size + data[size / 2]) % 16 == 7); /* one of 16 */
    if (load_plan_make(&p) == 0 && load_plan_store(&p) == 0) {
        the_load.units = p.units;
        fuzz_must(load_plan_fetch(&fetched) == 0 && fetched.units == p.units);
        load_plan_free(&fetched);
        load_read(sink, &p);
    }
    load_plan_free(&p);
    fake_dict_clear();
}

#define LOAD_TARGET(kind)                                          \
    int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) { \
        load_take(&kind, data, size);                              \
        return 0;                                                  \
    }

#endif
