/* SPDX-License-Identifier: Apache-2.0 */
/*
 * save_passes.c - the passes of --save, led by who decides: all nodes write at once, and a dump is
 * published when all of them have. The first begins before the time limit of the job, early enough
 * to write what there is; others follow it, and the last begins when the last client has left.
 * Values that an earlier pass has written are not written again, so the last pass is short and fits
 * between SIGTERM and SIGKILL.
 *
 * Where another node decides from now on (takeover.h), a pass that was under way has failed: the
 * nodes stop theirs, and a new one begins when it would have begun anyway.
 */
#include "save_passes.h"

#include "control.h"
#include "coordinator.h"
#include "life_events.h"
#include "record.h"
#include "startup_output.h"
#include "supervisor.h"
#include "takeover.h"
#include <base/clock.h>
#include <base/error.h>
#include <base/log.h>
#include <base/size.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define AGAIN_MS    30000u /* from an early pass to the next, at the least */
#define AGAIN_TIMES 4u     /* and this many times what the pass took */
/* from ready to a first pass, where the time limit is near already */
#define FIRST_MS 2000u
#define LOOK_MS  10000u /* between two looks at how much there is, at the least */
#define STOP_MS  800u   /* from "stop" to the answers */
/* from the answers to SIGKILL: statistics and record (DD_RECORD_MS where there is time) */
#define END_MS   1500u
#define TEXT_MAX 640

enum pass_step { IDLE, SIZING, PASSING, PUBLISHING };

static struct {
    struct supervisor *s;
    enum pass_step step;
    uint64_t pass; /* number of the one that runs, or of the last one */
    uint64_t began, took_ms;
    /* final: the dictionary's end waits for it; again: another pass follows; over: all is done */
    bool final, again, over;
    bool stopped; /* the time for saving is over */
    bool waits;   /* a pass begins when the keys of a lost node are served again */
    /* The pass that runs, or ran last, began after the last client had left: it has all. */
    bool has_all;
    bool hurried;
    /* others: our child makes a pass; another one is to follow, which who decides has asked for */
    bool busy, next;
    uint64_t hurry_at;      /* when SIGTERM came, by clock_ns(); 0: it did not */
    bool took_over;         /* another node led the passes before; nobody knows what they were */
    struct save_word *got;  /* [nodes], of this pass; what 0: no answer yet */
    struct save_word total; /* of the last whole pass */
    time_t whole_at;        /* when it began; 0: there was none */
    struct timer early, tick, budget, last;
    char warned[TEXT_MAX], said[TEXT_MAX];
    bool warned_fails; /* warned went out as `unsaved` */
} passes;

static uint64_t time_left_s(const struct supervisor *s) {
    time_t now = time(NULL);
    return s->opt.save_end > (uint64_t)now ? s->opt.save_end - (uint64_t)now : 0;
}

static void timer_arm(struct supervisor *s, struct timer *t, uint64_t ms) {
    if (timer_after(&s->timers, t, ms * 1000000ull) < 0)
        log_warn("no memory for a deadline");
}

static void timers_stop(struct supervisor *s) {
    struct timer *all[] = {&passes.early, &passes.tick, &passes.budget, &passes.last};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        timer_clear(&s->timers, all[i]);
}

/* --- results --- */

/* A line of the record for each finished pass. */
static void record_save(struct supervisor *s, bool complete, const char *text) {
    char *line = NULL;
    size_t len = 0;
    FILE *f = s->opt.record ? record_line(s, "save", &line, &len) : NULL;
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
        const struct save_word *w = &passes.got[i];
        items += w->items;
        bytes += w->bytes;
        same += w->same;
        left_out += w->left_out;
        of += w->of;
    }
    fprintf(f,
            ",\"final\":%s,\"complete\":%s,\"items\":%llu,\"of\":%llu,\"bytes\":%llu,\"there_"
            "already\":%llu,\"left_out\":%llu,\"seconds\":%.3f,\"text\":",
            passes.final && !passes.again ? "true" : "false", complete ? "true" : "false",
            (unsigned long long)items, (unsigned long long)of, (unsigned long long)bytes,
            (unsigned long long)same, (unsigned long long)left_out, (double)passes.took_ms / 1e3);
    json_text(f, text);
    record_done(s, f, &line, &len);
}

/* "; it has what was there at 14:03:05" */
static void whole_format(char *text, size_t cap, const struct supervisor *s) {
    struct tm tm;
    char at[32] = "";
    if (passes.whole_at)
        strftime(at, sizeof at, "%H:%M:%S", localtime_r(&passes.whole_at, &tm));
    if (passes.whole_at)
        snprintf(text, cap, "; %s has what was there at %s", s->opt.save, at);
    else if (passes.took_over)
        snprintf(text, cap, "; %s has what was saved before", s->opt.save);
    else
        snprintf(text, cap, "; %s",
                 s->opt.save_prefix ? "files that are there are whole"
                                    : "no save was complete before");
}

/* Of the last pass: the first node that failed, and how much all nodes have saved. */
static void failure_format(const struct supervisor *s, char *text, size_t cap) {
    uint64_t items = 0, of = 0;
    const struct save_word *bad = NULL;
    for (uint32_t i = 0; i < s->nodes; i++) {
        const struct save_word *w = &passes.got[i];
        items += w->items;
        of += w->of;
        if (w->what == 0 && !bad)
            bad = w; /* no answer: its text is "" */
        if (w->what != 0 && !w->ok && (!bad || !bad->text[0]))
            bad = w;
    }
    uint32_t node = bad ? (uint32_t)(bad - passes.got) : 0;
    int n = snprintf(text, cap, "NOT ALL WAS SAVED to %s: node %s: %.300s", s->opt.save,
                     node_name(s, node), bad && bad->text[0] ? bad->text : "the time was over");
    if (n < (int)cap && of > 0)
        n += snprintf(text + n, cap - (size_t)n, "; %llu of %llu items are",
                      (unsigned long long)items, (unsigned long long)of);
    if (n < (int)cap)
        whole_format(text + n, cap - (size_t)n, s);
}

static void success_format(const struct supervisor *s, char *text, size_t cap) {
    char size[24];
    int n =
        snprintf(text, cap, "saved %llu items, %s to %s", (unsigned long long)passes.total.items,
                 size_format(size, sizeof size, passes.total.bytes), s->opt.save);
    if (passes.total.left_out > 0 && n < (int)cap)
        snprintf(text + n, cap - (size_t)n, "; %llu ITEMS WERE LEFT OUT, such as %.200s",
                 (unsigned long long)passes.total.left_out, passes.total.text);
}

/* Warns the user, once for each cause. fails: as `unsaved`, which makes the starter fail. */
static void warning_print(bool fails, const char *text) {
    if (passes.warned_fails == fails && strcmp(passes.warned, text) == 0)
        return;
    passes.warned_fails = fails;
    snprintf(passes.warned, sizeof passes.warned, "%s", text);
    for (char *c = passes.warned; *c; c++)
        if (*c == '\n')
            *c = ' ';
    startup_print("%s %s", fails ? "unsaved" : "warn", passes.warned);
    snprintf(passes.warned, sizeof passes.warned, "%s", text);
}

static void passes_finish(struct supervisor *s) {
    timers_stop(s);
    passes.over = true;
    supervisor_end(s);
}

/* --- passes --- */

static struct save_word *got_ours(const struct supervisor *s) {
    return &passes.got[s->node_id];
}

/* This node's part of a pass, or, where it still makes one for who decided before, when that is
 * over. */
static void ours_begin(struct supervisor *s) {
    passes.next = passes.busy;
    passes.busy = true;
    if (!passes.next)
        save_child_command(s, "pass");
}

static void children_tell(struct supervisor *s, enum save_what what) {
    struct save_word w = {.what = what, .pass = passes.pass};
    control_save(s, CONTROL_CHILDREN, &w, sizeof w);
}

static void pass_begin(struct supervisor *s) {
    passes.step = IDLE;
    passes.waits = takeover_waits(s) || !coordinator_all_served(s);
    if (passes.waits)
        return;
    passes.step = PASSING;
    passes.has_all = passes.final && !passes.stopped;
    passes.pass++;
    passes.began = clock_ns();
    memset(passes.got, 0, s->nodes * sizeof *passes.got);
    for (uint32_t i = 0; i < s->nodes; i++)
        if (coordinator_is_lost(s, i)) /* others write what it had */
            passes.got[i] = (struct save_word){.what = SAVE_DONE, .node = i, .ok = 1};
    timer_clear(&s->timers, &passes.early);
    if (!passes.tick.pos)
        timer_arm(s, &passes.tick, DD_STEP_SAY_MS);
    children_tell(s, SAVE_PASS);
    ours_begin(s);
}

static void pass_over(struct supervisor *s, bool complete) {
    char text[TEXT_MAX];
    passes.step = IDLE;
    passes.took_ms = (clock_ns() - passes.began) / 1000000;
    if (complete) {
        passes.total = (struct save_word){.what = SAVE_DONE};
        for (uint32_t i = 0; i < s->nodes; i++) {
            passes.total.items += passes.got[i].items;
            passes.total.bytes += passes.got[i].bytes;
            passes.total.left_out += passes.got[i].left_out;
            if (!passes.total.text[0])
                memcpy(passes.total.text, passes.got[i].text, sizeof passes.total.text);
        }
        passes.whole_at = time(NULL) - (time_t)(passes.took_ms / 1000);
        success_format(s, text, sizeof text);
    }
    if (passes.stopped)
        passes.again = false; /* there is no time for another one */
    if (passes.final && !passes.again && !passes.has_all)
        complete = false; /* it lacks what was put since it began */
    if (!complete)
        failure_format(s, text, sizeof text);
    record_save(s, complete, complete ? "" : text);
    if (passes.again) {
        passes.again = false;
        pass_begin(s);
        return;
    }
    snprintf(passes.said, sizeof passes.said, "%s", text);
    if (!complete || passes.total.left_out > 0)
        warning_print(!complete && passes.final, text); /* a later pass makes good an early one */
    if (passes.final)
        passes_finish(s);
    else if (s->stage == STAGE_READY) {
        timer_clear(&s->timers, &passes.tick);
        timer_arm(s, &passes.early,
                  passes.took_ms * AGAIN_TIMES > AGAIN_MS ? passes.took_ms * AGAIN_TIMES
                                                          : AGAIN_MS);
    }
}

static void answers_check(struct supervisor *s) {
    bool ok = true;
    for (uint32_t i = 0; i < s->nodes; i++) {
        if (passes.got[i].what == 0)
            return;
        ok &= passes.got[i].ok;
    }
    if (ok && !s->opt.save_prefix) {
        passes.step = PUBLISHING;
        save_child_command(s, "publish");
    } else
        pass_over(s, ok);
}

void save_passes_node_lost(struct supervisor *s, uint32_t node) {
    if (passes.step != PASSING || passes.over)
        return;
    struct save_word *w = &passes.got[node];
    *w = (struct save_word){.what = SAVE_DONE, .node = node};
    snprintf(w->text, sizeof w->text, "it is lost");
    passes.again |= passes.final;
    answers_check(s);
}

void save_passes_served(struct supervisor *s) {
    if (passes.waits && !passes.over && passes.step == IDLE)
        pass_begin(s);
}

static void size_known(struct supervisor *s, uint64_t bytes) {
    uint64_t need = s->opt.save_lead + bytes / DD_SAVE_RATE, left = time_left_s(s);
    passes.step = IDLE;
    if (passes.final || s->stage != STAGE_READY)
        return;
    if (left <= need + LOOK_MS / 1000)
        pass_begin(s);
    else
        timer_arm(s, &passes.early,
                  (left - need) / 2 * 1000 > LOOK_MS ? (left - need) / 2 * 1000 : LOOK_MS);
}

void save_passes_answered(struct supervisor *s, const struct save_word *w) {
    bool next = passes.next;
    passes.busy = passes.next = false;
    if (next) {
        ours_begin(s);
        return;
    }
    if (!control_decides(s)) {
        struct save_word up = *w;
        up.what = SAVE_DONE;
        up.pass = passes.pass;
        control_save(s, CONTROL_PARENT, &up, sizeof up);
        return;
    }
    if (s->lost || passes.over)
        return;
    switch (passes.step) {
    case SIZING: {
        bool end = passes.final;
        size_known(s, w->ok ? w->bytes : UINT64_MAX);
        if (end)
            pass_begin(s);
        return;
    }
    case PASSING:
        *got_ours(s) = *w;
        got_ours(s)->what = SAVE_DONE;
        answers_check(s);
        return;
    case PUBLISHING: {
        struct save_word *ours = got_ours(s);
        uint64_t items = 0;
        for (uint32_t i = 0; i < s->nodes; i++)
            items += passes.got[i].items;
        bool ok = w->ok && w->items == items;
        if (!ok)
            ours->ok = 0;
        if (!w->ok)
            memcpy(ours->text, w->text, sizeof w->text);
        else if (!ok)
            snprintf(ours->text, sizeof ours->text,
                     "manifest.json has %llu items, and the nodes wrote %llu",
                     (unsigned long long)w->items, (unsigned long long)items);
        pass_over(s, ok);
        return;
    }
    case IDLE:
        return;
    }
}

int save_passes_hear(struct supervisor *s, bool from_parent, const void *payload, size_t len) {
    struct save_word w;
    if (len != sizeof w)
        return DDICT_EPROTO;
    memcpy(&w, payload, sizeof w);
    w.text[sizeof w.text - 1] = 0;
    if (!s->opt.save)
        return DDICT_EPROTO;
    if (from_parent) {
        if (w.what == SAVE_PASS) {
            passes.pass = w.pass;
            ours_begin(s);
        } else if (w.what == SAVE_STOP)
            save_child_stop();
        return 0;
    }
    if (w.what != SAVE_DONE || w.node >= s->nodes)
        return DDICT_EPROTO;
    if (control_decides(s) && passes.step == PASSING && w.pass == passes.pass) {
        passes.got[w.node] = w;
        answers_check(s);
    }
    return 0;
}

/* --- times --- */

static void early_fire(struct timer *t) {
    struct supervisor *s = passes.s;
    if (s->stage != STAGE_READY || passes.step != IDLE)
        return;
    if (passes.pass > 0) {
        pass_begin(s);
        return;
    }
    passes.step = SIZING;
    save_child_command(s, "size");
}

/* Tells the starter, which waits for our end, that we are saving. */
static void tick_fire(struct timer *t) {
    if (passes.step != IDLE && passes.s->stage > STAGE_READY)
        startup_print("saving");
    timer_arm(passes.s, t, DD_STEP_SAY_MS);
}

/* Nodes that have not answered by now have failed. */
static void last_fire(struct timer *t) {
    struct supervisor *s = passes.s;
    if (passes.over || s->lost)
        return;
    if (passes.step != IDLE) {
        struct save_word *ours = got_ours(s);
        if (ours->what == 0)
            *ours = *save_child_progress(), ours->what = 0, ours->text[0] = 0;
        save_child_kill();
        if (passes.step == PUBLISHING) {
            ours->ok = 0;
            snprintf(ours->text, sizeof ours->text, "the time was over");
        }
        pass_over(s, false);
        return;
    }
    /* the time was over before all clients had left, so there was no pass */
    memset(passes.got, 0, s->nodes * sizeof *passes.got);
    passes.began = clock_ns();
    passes.again = false;
    pass_over(s, false);
}

static void budget_fire(struct timer *t) {
    struct supervisor *s = passes.s;
    if (passes.over || s->lost)
        return;
    log_info("the time for saving is over");
    passes.stopped = passes.final = true;
    save_child_stop();
    children_tell(s, SAVE_STOP);
    timer_arm(s, &passes.last, STOP_MS);
}

void save_passes_begin(struct supervisor *s) {
    if (!s->opt.save)
        return;
    passes.s = s;
    if (!control_decides(s))
        return;
    passes.got = calloc(s->nodes, sizeof *passes.got);
    passes.early.fire = early_fire;
    passes.tick.fire = tick_fire;
    passes.budget.fire = budget_fire;
    passes.last.fire = last_fire;
    if (!passes.got || s->opt.save_end == 0)
        return;
    uint64_t left = time_left_s(s),
             lead = s->opt.save_lead < left / 2 ? s->opt.save_lead : left / 2,
             need = lead + s->budget * s->local_n / DD_SAVE_RATE;
    s->opt.save_lead = lead;
    timer_arm(s, &passes.early, left > need ? (left - need) * 1000 + FIRST_MS : FIRST_MS);
}

bool save_passes_last_begin(struct supervisor *s) {
    if (!s->opt.save || passes.over || !passes.got || s->lost || !s->was_ready)
        return false;
    if (passes.final)
        return true;
    passes.final = true;
    timer_clear(&s->timers, &passes.early);
    if (passes.step == IDLE)
        pass_begin(s);
    else if (passes.step != SIZING)
        passes.again = true; /* it began before the last client had left */
    return true;
}

int save_passes_wait_ms(const struct supervisor *s, int wait_ms) {
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

void save_passes_hurry(struct supervisor *s) {
    if (!passes.hurry_at)
        passes.hurry_at = clock_ns();
    if (!s->opt.save || !control_decides(s) || !passes.got || passes.over || passes.hurried)
        return;
    int ms = s->opt.kill_wait_ms - (int)(END_MS + STOP_MS);
    if (s->opt.kill_wait_ms > 5 * DD_RECORD_MS)
        ms -= DD_RECORD_MS - (int)END_MS;
    ms -= (int)((clock_ns() - passes.hurry_at) / 1000000);
    passes.hurried = true;
    timer_arm(s, &passes.budget, ms > (int)STOP_MS ? (uint64_t)ms : STOP_MS);
}

void save_passes_lost(struct supervisor *s) {
    if (!s->opt.save || !s->was_ready || passes.over)
        return;
    char more[300];
    passes.s = s;
    passes.over = true;
    timers_stop(s);
    save_child_kill();
    whole_format(more, sizeof more, s);
    if (!control_decides(s))
        snprintf(more, sizeof more, "; %s has what was saved before", s->opt.save);
    snprintf(passes.said, sizeof passes.said, "NOT ALL WAS SAVED to %s: the dictionary was lost%s",
             s->opt.save, more);
    if (control_is_head(s))
        warning_print(true, passes.said);
    if (!passes.got)
        passes.got = calloc(s->nodes, sizeof *passes.got);
    else
        memset(passes.got, 0, s->nodes * sizeof *passes.got);
    passes.final = true;
    passes.again = false;
    passes.took_ms = 0;
    if (passes.got && control_is_head(s))
        record_save(s, false, passes.said);
}

void save_passes_below(struct supervisor *s) {
    if (passes.busy)
        save_child_stop();
    timers_stop(s); /* we may have decided before */
    free(passes.got);
    passes.got = NULL;
    passes.step = IDLE;
    passes.final = passes.again = passes.stopped = passes.hurried = passes.waits = false;
}

void save_passes_takeover(struct supervisor *s) {
    if (!s->opt.save || s->stage < STAGE_READY || s->stage >= STAGE_ENDING || s->lost)
        return;
    save_passes_below(s);
    passes.took_over = true;
    /* one more than any node may have heard of */
    passes.pass += 2;
    save_passes_begin(s);
    if (passes.hurry_at)
        save_passes_hurry(s);
}

const char *save_passes_outcome(const struct supervisor *s) {
    return s->opt.save ? passes.said : "";
}

void save_passes_end(struct supervisor *s) {
    save_child_end();
    free(passes.got);
    passes.got = NULL;
}
