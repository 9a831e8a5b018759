/* SPDX-License-Identifier: Apache-2.0 */
/*
 * saving.c - the passes of --save, led by node 0: all nodes write at once, and a dump is published when all of them have. The first comes before the time limit of the job,
 * early enough for what is there, and then again and again; the last when the last client is gone. What an earlier pass has written is not written again, so the last one is short, and
 * fits between SIGTERM and SIGKILL.
 */
#include <base/clock.h>
#include <base/error.h>
#include <base/log.h>
#include <base/size.h>
#include <manager/supervisor.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define AGAIN_MS    30000u /* from an early pass to the next, at the least */
#define AGAIN_TIMES 4u     /* and so many times what it took */
#define FIRST_MS    2000u  /* from ready to a first pass, where the time limit is near already */
#define LOOK_MS     10000u /* between two looks how much there is, at the least */
#define STOP_MS     800u   /* from "stop" to the answers */
#define END_MS \
    1500u /* from these to SIGKILL: the figures and the record, which has DD_RECORD_MS where there is time */
#define SAY_MAX 640

enum step { IDLE, SIZING, PASSING, PUBLISHING };

static struct {
    struct supervisor *s;
    enum step step;
    uint64_t pass; /* number of the one that runs, or of the last one */
    uint64_t began, took_ms;
    bool final, again,
        over; /* final: the end waits; again: another pass behind this one; over: nothing comes any more */
    bool stopped; /* the time is over */
    bool hurried;
    struct save_word *got;  /* [nodes], of this pass; what 0: no answer yet */
    struct save_word total; /* of the last whole pass */
    time_t whole_at;        /* when it began; 0: there was none */
    struct timer early, tick, budget, last;
    char warned[SAY_MAX], said[SAY_MAX];
} g;

static uint64_t left_s(const struct supervisor *s) {
    time_t now = time(NULL);
    return s->opt.save_end > (uint64_t)now ? s->opt.save_end - (uint64_t)now : 0;
}

static void arm(struct supervisor *s, struct timer *t, uint64_t ms) {
    if (timer_after(&s->timers, t, ms * 1000000ull) < 0)
        log_warn("no memory for a deadline");
}

/* --- what came of it --- */

/* In the record: each pass that is over. */
static void record_save(struct supervisor *s, bool complete, const char *text) {
    char *line = NULL;
    size_t len = 0;
    FILE *f = s->opt.log ? record_line(s, "save", &line, &len) : NULL;
    if (!f)
        return;
    fputs(",\"path\":", f);
    json_text(f, s->opt.save);
    fprintf(f, ",\"form\":\"%s\"", s->opt.save_prefix ? "files" : "dump");
    if (s->opt.save_prefix) {
        fputs(",\"prefix\":", f);
        json_text(f, s->opt.save_prefix);
    }
    uint64_t items = 0, bytes = 0, same = 0, left_out = 0, of = 0;
    for (uint32_t i = 0; i < s->nodes; i++) {
        const struct save_word *w = &g.got[i];
        items += w->items;
        bytes += w->bytes;
        same += w->same;
        left_out += w->left_out;
        of += w->of;
    }
    fprintf(f,
            ",\"final\":%s,\"complete\":%s,\"items\":%llu,\"of\":%llu,\"bytes\":%llu,\"there_"
            "already\":%llu,\"left_out\":%llu,\"seconds\":%.3f,\"text\":",
            g.final && !g.again ? "true" : "false", complete ? "true" : "false",
            (unsigned long long)items, (unsigned long long)of, (unsigned long long)bytes,
            (unsigned long long)same, (unsigned long long)left_out, (double)g.took_ms / 1e3);
    json_text(f, text);
    record_done(s, f, &line, &len);
}

/* "; it has what was there at 14:03:05" */
static void whole_say(char *text, size_t cap, const struct supervisor *s) {
    struct tm tm;
    char at[32] = "";
    if (g.whole_at)
        strftime(at, sizeof at, "%H:%M:%S", localtime_r(&g.whole_at, &tm));
    if (g.whole_at)
        snprintf(text, cap, "; %s has what was there at %s", s->opt.save, at);
    else
        snprintf(text, cap, "; %s",
                 s->opt.save_prefix ? "files that are there are whole"
                                    : "no save was complete before");
}

/* Of the last pass: the first node that failed, and how far all of them are. */
static void failure_say(const struct supervisor *s, char *text, size_t cap) {
    uint64_t items = 0, of = 0;
    const struct save_word *bad = NULL;
    for (uint32_t i = 0; i < s->nodes; i++) {
        const struct save_word *w = &g.got[i];
        items += w->items;
        of += w->of;
        if (w->what == 0 && !bad)
            bad = w; /* no answer: its text is "" */
        if (w->what != 0 && !w->ok && (!bad || !bad->text[0]))
            bad = w;
    }
    uint32_t node = bad ? (uint32_t)(bad - g.got) : 0;
    int n = snprintf(text, cap, "NOT ALL WAS SAVED to %s: node %s: %.300s", s->opt.save,
                     node_name(s, node), bad && bad->text[0] ? bad->text : "the time was over");
    if (n < (int)cap && of > 0)
        n += snprintf(text + n, cap - (size_t)n, "; %llu of %llu items are",
                      (unsigned long long)items, (unsigned long long)of);
    if (n < (int)cap)
        whole_say(text + n, cap - (size_t)n, s);
}

static void success_say(const struct supervisor *s, char *text, size_t cap) {
    char size[24];
    int n = snprintf(text, cap, "saved %llu items, %s to %s", (unsigned long long)g.total.items,
                     size_format(size, sizeof size, g.total.bytes), s->opt.save);
    if (g.total.left_out > 0 && n < (int)cap)
        snprintf(text + n, cap - (size_t)n, "; %llu ITEMS WERE LEFT OUT, such as %.200s",
                 (unsigned long long)g.total.left_out, g.total.text);
}

/* Once for each cause: people, at once. */
static void warn(const char *text) {
    if (strcmp(g.warned, text) == 0)
        return;
    snprintf(g.warned, sizeof g.warned, "%s", text);
    for (char *c = g.warned; *c; c++)
        if (*c == '\n')
            *c = ' ';
    say("warn %s", g.warned);
    snprintf(g.warned, sizeof g.warned, "%s", text);
}

static void finish(struct supervisor *s) {
    struct timer *all[] = {&g.early, &g.tick, &g.budget, &g.last};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        timer_clear(&s->timers, all[i]);
    g.over = true;
    supervisor_end(s);
}

/* --- passes --- */

static void to_children(struct supervisor *s, enum save_what what) {
    struct save_word w = {.what = what, .pass = g.pass};
    control_save(s, CONTROL_CHILDREN, &w, sizeof w);
}

static void pass_begin(struct supervisor *s) {
    g.step = PASSING;
    g.pass++;
    g.began = clock_ns();
    memset(g.got, 0, s->nodes * sizeof *g.got);
    timer_clear(&s->timers, &g.early);
    if (!g.tick.pos)
        arm(s, &g.tick, DD_STEP_SAY_MS);
    to_children(s, SAVE_PASS);
    saver_command(s, "pass");
}

static void pass_over(struct supervisor *s, bool complete) {
    char text[SAY_MAX];
    g.step = IDLE;
    g.took_ms = (clock_ns() - g.began) / 1000000;
    if (complete) {
        g.total = (struct save_word){.what = SAVE_DONE};
        for (uint32_t i = 0; i < s->nodes; i++) {
            g.total.items += g.got[i].items;
            g.total.bytes += g.got[i].bytes;
            g.total.left_out += g.got[i].left_out;
            if (!g.total.text[0])
                memcpy(g.total.text, g.got[i].text, sizeof g.total.text);
        }
        g.whole_at = time(NULL) - (time_t)(g.took_ms / 1000);
        success_say(s, text, sizeof text);
    } else
        failure_say(s, text, sizeof text);
    record_save(s, complete, complete ? "" : text);
    if (g.final && g.again && !g.stopped) {
        g.again = false;
        pass_begin(s);
        return;
    }
    snprintf(g.said, sizeof g.said, "%s", text);
    if (!complete || g.total.left_out > 0)
        warn(text);
    if (g.final)
        finish(s);
    else if (s->stage == STAGE_READY) {
        timer_clear(&s->timers, &g.tick);
        arm(s, &g.early, g.took_ms * AGAIN_TIMES > AGAIN_MS ? g.took_ms * AGAIN_TIMES : AGAIN_MS);
    }
}

static void answers_look(struct supervisor *s) {
    bool ok = true;
    for (uint32_t i = 0; i < s->nodes; i++) {
        if (g.got[i].what == 0)
            return;
        ok &= g.got[i].ok;
    }
    if (ok && !s->opt.save_prefix) {
        g.step = PUBLISHING;
        saver_command(s, "publish");
    } else
        pass_over(s, ok);
}

static void sized(struct supervisor *s, uint64_t bytes) {
    uint64_t need = s->opt.save_lead + bytes / DD_SAVE_RATE, left = left_s(s);
    g.step = IDLE;
    if (g.final || s->stage != STAGE_READY)
        return;
    if (left <= need + LOOK_MS / 1000)
        pass_begin(s);
    else
        arm(s, &g.early, (left - need) / 2 * 1000 > LOOK_MS ? (left - need) / 2 * 1000 : LOOK_MS);
}

void saving_answered(struct supervisor *s, const struct save_word *w) {
    if (s->node_id > 0) {
        struct save_word up = *w;
        up.what = SAVE_DONE;
        up.pass = g.pass;
        control_save(s, CONTROL_PARENT, &up, sizeof up);
        return;
    }
    if (s->lost || g.over)
        return;
    switch (g.step) {
    case SIZING: {
        bool end = g.final;
        sized(s, w->ok ? w->bytes : UINT64_MAX);
        if (end)
            pass_begin(s);
        return;
    }
    case PASSING:
        g.got[0] = *w;
        g.got[0].what = SAVE_DONE;
        answers_look(s);
        return;
    case PUBLISHING: {
        uint64_t items = 0;
        for (uint32_t i = 0; i < s->nodes; i++)
            items += g.got[i].items;
        bool ok = w->ok && w->items == items;
        if (!ok)
            g.got[0].ok = 0;
        if (!w->ok)
            memcpy(g.got[0].text, w->text, sizeof w->text);
        else if (!ok)
            snprintf(g.got[0].text, sizeof g.got[0].text,
                     "manifest.json has %llu items, and the nodes wrote %llu",
                     (unsigned long long)w->items, (unsigned long long)items);
        pass_over(s, ok);
        return;
    }
    case IDLE:
        return;
    }
}

int saving_heard(struct supervisor *s, bool from_parent, const void *payload, size_t len) {
    struct save_word w;
    if (len != sizeof w)
        return DDICT_EPROTO;
    memcpy(&w, payload, sizeof w);
    w.text[sizeof w.text - 1] = 0;
    if (!s->opt.save)
        return DDICT_EPROTO;
    if (from_parent) {
        if (w.what == SAVE_PASS) {
            g.pass = w.pass;
            saver_command(s, "pass");
        } else if (w.what == SAVE_STOP)
            saver_stop();
        return 0;
    }
    if (w.what != SAVE_DONE || w.node == 0 || w.node >= s->nodes)
        return DDICT_EPROTO;
    if (g.step == PASSING && w.pass == g.pass) {
        g.got[w.node] = w;
        answers_look(s);
    }
    return 0;
}

/* --- when --- */

static void early(struct timer *t) {
    struct supervisor *s = g.s;
    if (s->stage != STAGE_READY || g.step != IDLE)
        return;
    if (g.pass > 0) {
        pass_begin(s);
        return;
    }
    g.step = SIZING;
    saver_command(s, "size");
}

/* Who waits for our end shall not lose patience. */
static void tick(struct timer *t) {
    if (g.step != IDLE && g.s->stage > STAGE_READY)
        say("saving");
    arm(g.s, t, DD_STEP_SAY_MS);
}

/* What has no answer now gets none. */
static void last(struct timer *t) {
    struct supervisor *s = g.s;
    if (g.over || s->lost)
        return;
    if (g.step != IDLE) {
        if (g.got[0].what == 0)
            g.got[0] = *saver_at(), g.got[0].what = 0, g.got[0].text[0] = 0;
        saver_kill();
        if (g.step == PUBLISHING) {
            g.got[0].ok = 0;
            snprintf(g.got[0].text, sizeof g.got[0].text, "the time was over");
        }
        pass_over(s, false);
        return;
    }
    memset(g.got, 0, s->nodes * sizeof *g.got); /* clients did not leave before the time was over */
    g.began = clock_ns();
    g.again = false;
    pass_over(s, false);
}

static void budget(struct timer *t) {
    struct supervisor *s = g.s;
    if (g.over || s->lost)
        return;
    log_info("the time for saving is over");
    g.stopped = g.final = true;
    saver_stop();
    to_children(s, SAVE_STOP);
    arm(s, &g.last, STOP_MS);
}

void saving_begin(struct supervisor *s) {
    if (!s->opt.save)
        return;
    g.s = s;
    if (s->node_id > 0)
        return;
    g.got = calloc(s->nodes, sizeof *g.got);
    g.early.fire = early;
    g.tick.fire = tick;
    g.budget.fire = budget;
    g.last.fire = last;
    if (!g.got || s->opt.save_end == 0)
        return;
    uint64_t left = left_s(s), lead = s->opt.save_lead < left / 2 ? s->opt.save_lead : left / 2,
             need = lead + s->budget * s->shards_n / DD_SAVE_RATE;
    s->opt.save_lead = lead;
    arm(s, &g.early, left > need ? (left - need) * 1000 + FIRST_MS : FIRST_MS);
}

bool saving_end(struct supervisor *s) {
    if (!s->opt.save || g.over || !g.got || s->lost || !s->was_ready)
        return false;
    if (g.final)
        return true;
    g.final = true;
    timer_clear(&s->timers, &g.early);
    if (g.step == IDLE)
        pass_begin(s);
    else if (g.step != SIZING)
        g.again = true; /* it began before the last client had left */
    return true;
}

int saving_wait_ms(const struct supervisor *s, int wait_ms) {
    if (!s->opt.save)
        return wait_ms;
    int third = s->opt.kill_wait_ms / 3;
    if (s->opt.kill_wait_ms < 3 * DD_RESULTS_END_MS)
        third = s->opt.kill_wait_ms / 4;
    else
        third = third < DD_RESULTS_END_MS  ? DD_RESULTS_END_MS
                : third > DD_SAVE_LEAVE_MS ? DD_SAVE_LEAVE_MS
                                           : third;
    return wait_ms < third ? third : wait_ms;
}

void saving_hurry(struct supervisor *s) {
    if (!s->opt.save || s->node_id > 0 || !g.got || g.over || g.hurried)
        return;
    int ms = s->opt.kill_wait_ms - (int)(END_MS + STOP_MS);
    if (s->opt.kill_wait_ms > 5 * DD_RECORD_MS)
        ms -= DD_RECORD_MS - (int)END_MS;
    g.hurried = true;
    arm(s, &g.budget, ms > (int)STOP_MS ? (uint64_t)ms : STOP_MS);
}

void saving_lost(struct supervisor *s) {
    if (!s->opt.save || !s->was_ready || g.over)
        return;
    char more[300];
    g.s = s;
    g.over = true;
    struct timer *all[] = {&g.early, &g.tick, &g.budget, &g.last};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        timer_clear(&s->timers, all[i]);
    saver_kill();
    whole_say(more, sizeof more, s);
    if (s->node_id > 0)
        snprintf(more, sizeof more, "; %s has what was saved before", s->opt.save);
    snprintf(g.said, sizeof g.said, "NOT ALL WAS SAVED to %s: the dictionary was lost%s",
             s->opt.save, more);
    if (control_is_head(s))
        warn(g.said);
    if (!g.got)
        g.got = calloc(s->nodes, sizeof *g.got);
    else
        memset(g.got, 0, s->nodes * sizeof *g.got);
    g.final = true;
    g.again = false;
    g.took_ms = 0;
    if (g.got && control_is_head(s))
        record_save(s, false, g.said);
}

const char *saving_said(const struct supervisor *s) {
    return s->opt.save ? g.said : "";
}

void saving_fini(struct supervisor *s) {
    saver_end();
    free(g.got);
    g.got = NULL;
}
