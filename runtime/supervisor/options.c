/* SPDX-License-Identifier: Apache-2.0 */
/* options.c - read the command line of ddictd. */
#include "options.h"

#include <base/defaults.h>
#include <base/error.h>
#include <base/size.h>
#include <store/store.h>
#include <wire/fabric/fabric.h>

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct option table[] = {{"name", required_argument, NULL, 'n'},
                                      {"managers", required_argument, NULL, 'm'},
                                      {"mem", required_argument, NULL, 'M'},
                                      {"wireup", required_argument, NULL, 'w'},
                                      {"nodes", required_argument, NULL, 'k'},
                                      {"node-id", required_argument, NULL, 'i'},
                                      {"node", required_argument, NULL, 'N'},
                                      {"drain-ms", required_argument, NULL, 'd'},
                                      {"stay", no_argument, NULL, 's'},
                                      {"dict-id", required_argument, NULL, 'I'},
                                      {"record", required_argument, NULL, 'l'},
                                      {"summary", required_argument, NULL, 'S'},
                                      {"asked", required_argument, NULL, 'a'},
                                      {"script", required_argument, NULL, 'c'},
                                      {"connections", required_argument, NULL, 'C'},
                                      {"results", required_argument, NULL, 'r'},
                                      {"save", required_argument, NULL, 'v'},
                                      {"save-prefix", required_argument, NULL, 'P'},
                                      {"save-after-load", no_argument, NULL, 'A'},
                                      {"save-end", required_argument, NULL, 'e'},
                                      {"save-lead", required_argument, NULL, 'L'},
                                      {"kill-wait", required_argument, NULL, 'K'},
                                      {"ports", required_argument, NULL, 'p'},
                                      {"transport", required_argument, NULL, 'T'},
                                      {"rma", required_argument, NULL, 'R'},
                                      {"wire", required_argument, NULL, 'W'},
                                      {"tasks", required_argument, NULL, 't'},
                                      {"cache", required_argument, NULL, 'F'},
                                      {"hugepages", required_argument, NULL, 'H'},
                                      {"spill", required_argument, NULL, 'x'},
                                      {"spill-size", required_argument, NULL, 'X'},
                                      {"help", no_argument, NULL, 'h'},
                                      {"version", no_argument, NULL, 'V'},
                                      {NULL, 0, NULL, 0}};

static int number_parse(const char *option, const char *text, uint64_t lo, uint64_t hi,
                        uint64_t *n) {
    if (count_parse(text, lo, hi, n) == 0)
        return 0;
    return dd_error(-EINVAL, "--%s=%s: a number from %llu to %llu is wanted", option, text,
                    (unsigned long long)lo, (unsigned long long)hi);
}

static int hex_parse(const char *text, uint8_t out[16]) {
    if (strlen(text) != 32 || strspn(text, "0123456789abcdefABCDEF") != 32)
        return -EINVAL;
    for (int i = 0; i < 16; i++) {
        char two[3] = {text[2 * i], text[2 * i + 1], 0};
        out[i] = (uint8_t)strtoul(two, NULL, 16);
    }
    return 0;
}

static int text_copy(const char *option, char *to, size_t cap, const char *text) {
    if (*text == 0 || strlen(text) >= cap || strpbrk(text, "/ \t\n"))
        return dd_error(-EINVAL, "--%s=%s: 1 to %zu characters without slash and blank are wanted",
                        option, text, cap - 1);
    strcpy(to, text);
    return 0;
}

static int path_parse(const char *option, const char **to, const char *arg) {
    if (*arg != '/')
        return dd_error(-EINVAL, "--%s=%s: an absolute path is wanted", option, arg);
    *to = arg;
    return 0;
}

static int ports_parse(struct options *o, const char *arg) {
    char low[8], high[8];
    uint64_t a, b;
    if (sscanf(arg, "%7[0-9]-%7[0-9]", low, high) != 2 ||
        strlen(arg) != strlen(low) + strlen(high) + 1 || count_parse(low, 1, 65535, &a) < 0 ||
        count_parse(high, 1, 65535, &b) < 0 || a > b)
        return dd_error(-EINVAL, "--ports=%s: two ports are wanted, such as 20000-20999", arg);
    o->port_low = (uint16_t)a;
    o->port_high = (uint16_t)b;
    return 0;
}

static int script_parse(struct options *o, const char *arg) {
    const char *slash = strchr(arg, '/');
    char pid[12], began[24];
    uint64_t p;
    if (!slash || slash == arg || (size_t)(slash - arg) >= sizeof o->script_node ||
        sscanf(slash + 1, "%11[0-9]/%23[0-9]", pid, began) != 2 ||
        strlen(slash + 1) != strlen(pid) + strlen(began) + 1 ||
        count_parse(pid, 1, INT32_MAX, &p) < 0 ||
        count_parse(began, 0, INT64_MAX, &o->script_began) < 0)
        return dd_error(-EINVAL, "--script=%s: NODE/PID/TICKS is wanted", arg);
    memcpy(o->script_node, arg, (size_t)(slash - arg));
    o->script_node[slash - arg] = 0;
    o->script_pid = (pid_t)p;
    return 0;
}

static int transport_parse(struct options *o, const char *arg) {
    if (strcmp(arg, "auto") != 0 && strcmp(arg, "tcp") != 0 && strcmp(arg, "ofi") != 0 &&
        (strncmp(arg, "ofi:", 4) != 0 || !arg[4] || strlen(arg) >= FABRIC_NAME_MAX))
        return dd_error(-EINVAL, "--transport=%s: auto, tcp, ofi or ofi:PROVIDER is wanted", arg);
    o->transport = arg;
    return 0;
}

static int option_parse(struct options *o, int c, const char *arg) {
    uint64_t n = 0;
    int e = 0;
    switch (c) {
    case 'n':
        return text_copy("name", o->name, sizeof o->name, arg);
    case 'N':
        return text_copy("node", o->node, sizeof o->node, arg);
    case 'm':
        e = number_parse("managers", arg, 1, DD_MANAGERS_MAX, &n);
        o->managers = (uint32_t)n;
        return e;
    case 'M':
        if (size_parse(arg, &o->mem) == 0 && o->mem > 0)
            return 0;
        return dd_error(-EINVAL, "--mem=%s: bytes are wanted, or a number with K, M, G or T", arg);
    case 'w':
        if (strcmp(arg, "none") == 0)
            o->wireup = WIREUP_NONE;
        else if (strcmp(arg, "stdio") == 0)
            o->wireup = WIREUP_STDIO;
        else if (strcmp(arg, "pmix") == 0)
            o->wireup = WIREUP_PMIX;
        else
            return dd_error(-EINVAL, "--wireup=%s: pmix, stdio or none is wanted", arg);
        return 0;
    case 'k':
        e = number_parse("nodes", arg, 1, DD_MANAGERS_MAX, &n);
        o->nodes = (uint32_t)n;
        return e;
    case 'i':
        e = number_parse("node-id", arg, 0, DD_MANAGERS_MAX - 1, &n);
        o->node_id = (uint32_t)n;
        return e;
    case 'd':
        e = number_parse("drain-ms", arg, 0, 86400000, &n);
        o->drain_ms = (int)n;
        return e;
    case 's':
        o->stay = true;
        return 0;
    case 't':
        e = number_parse("tasks", arg, 1, DD_TASKS_MAX, &n);
        o->tasks = (uint32_t)n;
        return e;
    case 'l':
        return path_parse("record", &o->record, arg);
    case 'r':
        return path_parse("results", &o->results, arg);
    case 'v':
        return path_parse("save", &o->save, arg);
    case 'P':
        o->save_prefix = arg;
        return 0;
    case 'A':
        o->save_after_load = true;
        return 0;
    case 'e':
        return number_parse("save-end", arg, 0, INT64_MAX, &o->save_end);
    case 'L':
        return number_parse("save-lead", arg, 0, 86400, &o->save_lead);
    case 'K':
        e = number_parse("kill-wait", arg, 0, 86400, &n);
        o->kill_wait_ms = (int)n * 1000;
        return e;
    case 'S':
        return path_parse("summary", &o->summary, arg);
    case 'a':
        o->asked = arg;
        return 0;
    case 'c':
        return script_parse(o, arg);
    case 'p':
        return ports_parse(o, arg);
    case 'C':
        e = number_parse("connections", arg, 1, DD_CONNECTIONS_MAX, &n);
        o->connections = (unsigned)n;
        return e;
    case 'T':
        return transport_parse(o, arg);
    case 'R':
        if (strcmp(arg, "yes") != 0 && strcmp(arg, "no") != 0 && strcmp(arg, "auto") != 0)
            return dd_error(-EINVAL, "--rma=%s: yes, no or auto is wanted", arg);
        o->rma = arg;
        return 0;
    case 'W':
        o->has_wire = true;
        if (seal_parse(arg, &o->wire))
            return 0;
        return dd_error(-EINVAL, "--wire=%s: plain, auth or encrypt is wanted", arg);
    case 'F':
        o->has_cache = true;
        if (size_parse(arg, &o->cache) == 0)
            return 0;
        return dd_error(-EINVAL, "--cache=%s: bytes are wanted, or a number with K, M, G or T",
                        arg);
    case 'H':
        if (hugepages_parse(arg, &o->huge_page) == 0)
            return 0;
        return dd_error(
            -EINVAL,
            "--hugepages=%s: no, advise, or the size of a huge page such as 2M or 1G is wanted",
            arg);
    case 'x':
        return path_parse("spill", &o->spill, arg);
    case 'X':
        if (size_parse(arg, &o->spill_size) == 0 && o->spill_size > 0)
            return 0;
        return dd_error(-EINVAL, "--spill-size=%s: bytes are wanted, or a number with K, M, G or T",
                        arg);
    case 'I':
        if (hex_parse(arg, o->dict_id) < 0)
            return dd_error(-EINVAL, "--dict-id=%s: 32 hexadecimal digits are wanted", arg);
        o->has_id = true;
        return 0;
    default:
        return dd_error(-EINVAL, "unknown option; see ddictd --help");
    }
}

int options_parse(struct options *o, int argc, char **argv) {
    int c, e;
    bool id_given = false;
    memset(o, 0, sizeof *o);
    o->nodes = 1;
    o->mem = DD_MEM_DEFAULT;
    o->drain_ms = DD_DRAIN_MS;
    o->connections = DD_CONNECTIONS;
    o->transport = "auto";
    o->rma = "auto";
    o->wire = DD_WIRE;
    o->save_lead = DD_SAVE_LEAD_S;
    o->kill_wait_ms = DD_KILL_WAIT_MS;
    o->huge_page = HUGE_ADVISE;
    /* under srun every task has the same command line */
    const char *node = getenv("SLURM_NODEID");
    uint64_t id;
    if (node && count_parse(node, 0, DD_MANAGERS_MAX - 1, &id) == 0)
        o->node_id = (uint32_t)id;
    opterr = 0;
    while ((c = getopt_long(argc, argv, "", table, NULL)) != -1) {
        if (c == 'h') {
            fputs("usage: ddictd --name=NAME --managers=N --mem=BYTES [OPTION...]\n"
                  "The managers of one node of a dictionary. `ddict up` and `ddict run` start it;\n"
                  "ddictd(8) describes the options.\n"
                  "      --name=NAME      name of the dictionary\n"
                  "      --managers=N     managers of the whole dictionary\n"
                  "      --mem=BYTES      memory of the whole dictionary\n"
                  "      --wireup=HOW     how the nodes find each other: pmix, stdio or none\n"
                  "      --nodes=K        with stdio: number of nodes\n"
                  "      --node-id=I      with stdio: which node this is (default: $SLURM_NODEID)\n"
                  "      --node=NODENAME  name of this node\n"
                  "      --drain-ms=MS    how long to wait for clients at the end (5000)\n"
                  "      --stay           live on after the end of stdin\n"
                  "      --tasks=N        end when N processes have come and gone\n"
                  "      --dict-id=HEX32  unique number of the dictionary\n"
                  "      --record=FILE    the record\n"
                  "      --summary=FILE   append a sentence for people at the end\n"
                  "      --asked=TEXT     the options of the user, for the record\n"
                  "      --results=DIR    write submitted results below DIR\n"
                  "      --script=NODE/PID/TICKS  end with this process\n"
                  "      --save=DIR       write the dictionary to DIR at its end\n"
                  "      --save-prefix=P  write each value whose key begins with P to a file\n"
                  "      --save-after-load  not before all is there that is loaded at the start\n"
                  "      --save-end=SECONDS   when the job's time is over, since 1970 (0: never)\n"
                  "      --save-lead=SECONDS  how long before that the first save begins (120)\n"
                  "      --kill-wait=SECONDS  time between SIGTERM and SIGKILL (30)\n"
                  "      --spill=DIR      folder of the spill on this node\n"
                  "      --spill-size=BYTES   space of the spill of the whole dictionary\n"
                  "      --transport=WHICH    auto, tcp, ofi or ofi:PROVIDER\n"
                  "      --wire=HOW       plain, auth or encrypt\n"
                  "      --rma=HOW        yes, no or auto\n"
                  "      --connections=N  TCP connections between two managers, 1 to 16 (3)\n"
                  "      --ports=LOW-HIGH listen on TCP ports of this range only\n"
                  "      --cache=BYTES    limit on kept values while the dictionary is frozen\n"
                  "      --hugepages=WHICH    no, advise, or the size of a huge page\n"
                  "      --help           print this\n"
                  "      --version        print the version\n",
                  stdout);
            return 1;
        }
        if (c == 'V') {
            puts("ddictd " DDICT_VERSION_STRING);
            return 1;
        }
        if (c == 'i')
            id_given = true;
        if ((e = option_parse(o, c, optarg)) < 0)
            return e;
    }
    if (optind < argc)
        return dd_error(-EINVAL, "unexpected argument %s", argv[optind]);
    /* the user's word; the option is the site's */
    const char *connections = getenv("DDICT_CONNECTIONS");
    if (connections && *connections && (e = option_parse(o, 'C', connections)) < 0)
        return e;
    const char *huge = getenv("DDICT_HUGEPAGES");
    if (huge && *huge && (e = option_parse(o, 'H', huge)) < 0)
        return e;
    if (!o->name[0])
        return dd_error(-EINVAL, "--name is missing");
    if (o->wireup != WIREUP_STDIO && !id_given)
        o->node_id = 0;
    if (o->wireup != WIREUP_STDIO && (o->nodes > 1 || o->node_id > 0))
        return dd_error(-EINVAL, "--nodes and --node-id go with --wireup=stdio");
    if (o->node_id >= o->nodes)
        return dd_error(-EINVAL, "--node-id=%u: there are %u nodes", o->node_id, o->nodes);
    return 0;
}
