/* SPDX-License-Identifier: Apache-2.0 */
/* options.c - read the command line of ddictd: what each option is, launch/option_rows.h has. */
#include "options.h"

#include <base/defaults.h>
#include <base/error.h>
#include <base/size.h>
#include <launch/option_table.h>
#include <store/store.h>

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The user's variable wins here: the option has the site's word. */
static int variables_take(struct settings *set, char *why, size_t cap) {
    for (enum option_id o = 0; o < OPTS; o++) {
        const char *variable = is_ddictd_only(o) ? option_rows[o].variable : NULL,
                   *text = variable ? getenv(variable) : NULL;
        struct settings said = {0};
        if (!text || !*text)
            continue;
        if (settings_take(&said, o, BY_VARIABLE, text, why, cap) < 0)
            return -EINVAL;
        set->of[o] = said.of[o];
    }
    return 0;
}

static enum wireup_how wireup_parse(const char *text) {
    return strcmp(text, "pmix") == 0    ? WIREUP_PMIX
           : strcmp(text, "stdio") == 0 ? WIREUP_STDIO
                                        : WIREUP_NONE;
}

/* 32 hexadecimal digits. */
static void hex_parse(const char *text, uint8_t out[16]) {
    for (int i = 0; i < 16; i++) {
        char two[3] = {text[2 * i], text[2 * i + 1], 0};
        out[i] = (uint8_t)strtoul(two, NULL, 16);
    }
}

/* Under srun every task has the same command line: the variable tells them apart. */
static uint32_t node_id_find(const struct settings *set, enum wireup_how wireup) {
    const char *node = getenv("SLURM_NODEID");
    uint64_t id;
    if (is_said(set, OPT_NODE_ID))
        return (uint32_t)number_of(set, OPT_NODE_ID);
    if (wireup == WIREUP_STDIO && node && count_parse(node, 0, DD_MANAGERS_MAX - 1, &id) == 0)
        return (uint32_t)(id + number_of(set, OPT_NODE_BASE));
    return 0;
}

/* It has been judged. */
static void working_set_fill(struct options *o, const struct settings *set) {
    struct working_set working = {0};
    char why[ASK_WHY];
    if (is_said(set, OPT_WORKING_SET))
        ask_working_set("", text_of(set, OPT_WORKING_SET), &working, why, sizeof why);
    o->working_set = working.size;
    o->working_flags = working.flags;
}

/* Where the dictionary is, and of how many. */
static void extent_fill(struct options *o, const struct settings *set) {
    if (is_said(set, OPT_NAME))
        strcpy(o->name, text_of(set, OPT_NAME));
    if (is_said(set, OPT_DICT_ID)) {
        o->has_id = true;
        hex_parse(text_of(set, OPT_DICT_ID), o->dict_id);
    }
    if (is_said(set, OPT_NODE))
        strcpy(o->node, text_of(set, OPT_NODE));
    o->managers = (uint32_t)number_of(set, OPT_MANAGERS);
    o->mem = number_of(set, OPT_MEM);
    o->keyed_nodes = (uint32_t)number_of(set, OPT_KEYED_NODES);
    o->forward_mem = number_of(set, OPT_FORWARD_MEM);
    o->replicas = (unsigned)number_of(set, OPT_REPLICAS);
    o->refill = is_yes(set, OPT_REFILL);
    o->wireup = wireup_parse(text_of(set, OPT_WIREUP));
    o->nodes = (uint32_t)number_of(set, OPT_NODES);
    o->node_id = node_id_find(set, o->wireup);
}

static void start_fill(struct options *o, const struct settings *set) {
    o->ready_ms = (int)number_of(set, OPT_READY_MS);
    o->elect_ms = DD_ELECT_FOR_MS(o->ready_ms);
    o->fence_ms = DD_FENCE_MS - DD_READY_MS + o->ready_ms;
    o->gather_ms = (int)((int64_t)o->ready_ms * DD_GATHER_MS / DD_READY_MS);
    o->fabric_ms = (int)((int64_t)o->ready_ms * DD_FABRIC_MS / DD_READY_MS);
}

static void life_fill(struct options *o, const struct settings *set) {
    o->drain_ms = (int)number_of(set, OPT_DRAIN_MS);
    o->kill_wait_ms = (int)number_of(set, OPT_KILL_WAIT) * 1000;
    o->stay = is_said(set, OPT_STAY);
    o->restarts = (unsigned)number_of(set, OPT_RESTARTS);
    o->tasks = (uint32_t)number_of(set, OPT_TASKS);
    if (is_said(set, OPT_SCRIPT))
        script_parse(text_of(set, OPT_SCRIPT), o->script_node, sizeof o->script_node,
                     &o->script_pid, &o->script_began);
    o->record = text_of(set, OPT_RECORD);
    o->summary = text_of(set, OPT_SUMMARY);
    o->asked = text_of(set, OPT_ASKED);
    o->results = text_of(set, OPT_RESULTS);
    o->save = text_of(set, OPT_SAVE);
    o->persist = text_of(set, OPT_PERSIST);
    o->save_prefix = text_of(set, OPT_SAVE_PREFIX);
    o->save_after_load = is_said(set, OPT_SAVE_AFTER_LOAD);
    o->save_end = number_of(set, OPT_SAVE_END);
    o->save_lead = number_of(set, OPT_SAVE_LEAD);
}

static void memory_fill(struct options *o, const struct settings *set) {
    o->huge_page = number_of(set, OPT_HUGEPAGES);
    o->has_cache = is_said(set, OPT_CACHE);
    o->cache = number_of(set, OPT_CACHE);
    o->spill = text_of(set, OPT_SPILL);
    o->spill_size = number_of(set, OPT_SPILL_SIZE);
}

static void network_fill(struct options *o, const struct settings *set) {
    o->transport = text_of(set, OPT_TRANSPORT);
    o->rma = text_of(set, OPT_RMA);
    o->has_wire = is_said(set, OPT_WIRE);
    o->wire = DD_WIRE;
    if (o->has_wire)
        seal_parse(text_of(set, OPT_WIRE), &o->wire);
    o->connections = (unsigned)number_of(set, OPT_CONNECTIONS);
    o->port_low = (uint16_t)set->of[OPT_PORTS].ports.low;
    o->port_high = (uint16_t)set->of[OPT_PORTS].ports.high;
}

static int options_judge(const struct options *o) {
    if (!o->name[0])
        return dd_error(-EINVAL, "%s is missing", option_rows[OPT_NAME].option);
    if (o->wireup != WIREUP_STDIO && (o->nodes > 1 || o->node_id > 0))
        return dd_error(-EINVAL, "%s and %s go with %s=stdio", option_rows[OPT_NODES].option,
                        option_rows[OPT_NODE_ID].option, option_rows[OPT_WIREUP].option);
    if (o->node_id >= o->nodes)
        return dd_error(-EINVAL, "%s=%u: there are %u nodes", option_rows[OPT_NODE_ID].option,
                        o->node_id, o->nodes);
    if (o->refill && o->working_set > 0)
        return dd_error(-EINVAL, "%s and %s exclude each other", option_rows[OPT_REFILL].option,
                        option_rows[OPT_WORKING_SET].option);
    return 0;
}

static void help_print(void) {
    fputs("usage: ddictd --name=NAME --managers=N --mem=BYTES [OPTION...]\n"
          "The managers of one node of a dictionary. `ddict up` and `ddict run` start it;\n"
          "ddictd(8) describes the options.\n",
          stdout);
    option_help(stdout, OF_DDICTD);
}

int options_parse(struct options *o, int argc, char **argv) {
    struct settings set = {0};
    char why[ASK_WHY];
    memset(o, 0, sizeof *o);
    if (settings_take_argv(&set, OF_DDICTD, BY_STARTER, argc, argv, why, sizeof why) < 0)
        return dd_error(-EINVAL, "%s", why);
    if (is_said(&set, OPT_HELP)) {
        help_print();
        return 1;
    }
    if (is_said(&set, OPT_VERSION)) {
        puts("ddictd " DDICT_VERSION_STRING);
        return 1;
    }
    if (optind < argc)
        return dd_error(-EINVAL, "unexpected argument %s", argv[optind]);
    if (variables_take(&set, why, sizeof why) < 0 || settings_complete(&set, why, sizeof why) < 0)
        return dd_error(-EINVAL, "%s", why);
    extent_fill(o, &set);
    working_set_fill(o, &set);
    start_fill(o, &set);
    life_fill(o, &set);
    memory_fill(o, &set);
    network_fill(o, &set);
    return options_judge(o);
}
