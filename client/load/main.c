/* SPDX-License-Identifier: Apache-2.0 */
/*
 * main.c - the program ddict-load, which `ddict load` execs. It is a separate program so that the
 * code that reads untrusted archives (libarchive) is neither in libddict nor in a training process:
 * it can crash, or be killed, alone. Python's ddict.load() runs it, too.
 */
#include "complain.h"
#include "existing_set.h"
#include "leader.h"
#include "load.h"
#include "losses.h"
#include "progress.h"
#include "refill.h"
#include "set_name.h"
#include "signals.h"
#include "state.h"
#include "worker.h"
#include <base/deal.h>
#include <base/error.h>
#include <base/oom.h>
#include <base/size.h>
#include <base/verb.h>
#include <launch/command.h>
#include <launch/fan_out.h>

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <load/format/sources.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

enum {
    EXIT_OK = 0,
    EXIT_FAILED = 1,
    EXIT_USAGE = 2,
    EXIT_NO_KEY = 3
};                              /* as the other verbs, cmd.h */
#define SOURCES_MAX (64u << 20) /* total length of their names */

static const char usage[] =
    "usage: ddict load [OPTION...] SOURCE...\n"
    "Put the items of the sources into the dictionary as one named set, all nodes at\n"
    "once. The same command goes on with a load that stopped.\n"
    "  SOURCE               a tar (also compressed, also of tars), a zip, a folder,\n"
    "                       IDX files (MNIST, with their labels), .npy, .npz, a text\n"
    "                       file, FASTA, or s3://BUCKET/PATH\n"
    "      --prefix=P       put P in front of each key\n"
    "      --set=NAME       name of the set (default: the prefix, else the first\n"
    "                       source's name without folder and ending)\n"
    "      --as=KIND        kind of the sources:\n"
    "                       %s\n"
    "      --on-error=HOW   stop (default) at a damaged or unreadable item; or skip\n"
    "      --replace        replace keys, and a set, that are there already\n"
    "      --anon           do not sign requests to S3\n"
    "      --threads=N      readers on a node (default: twice its cores, 4 to 16)\n"
    "      --here           read with this process alone, not on all nodes\n"
    "      --chdir=DIR      folder of relative paths\n"
    "      --json           print the summary as an object\n"
    "  -q, --quiet          print no progress\n"
    "      --name=NAME      use the dictionary NAME, not that of $DDICT_NAME\n"
    "  -h, --help           print this\n";

static int usage_fail(const char *fmt, const char *value) {
    char text[256];
    snprintf(text, sizeof text, fmt, value);
    verb_say("%s", text);
    fprintf(stderr, "%.*s\n", (int)strcspn(usage, "\n"), usage);
    return EXIT_USAGE;
}

static int load_failed(int code) {
    load_complain(dd_errmsg(), code);
    return EXIT_FAILED;
}

/* --- the command line --- */

struct line {
    struct load_options o;
    const char *chdir;
    bool here;
    const char *owners; /* of a refill; NULL: a load */
    bool is_removal;    /* of the set */
};

/* 0, or the exit code + 1. */
static int option_take(struct line *l, int c) {
    struct load_options *o = &l->o;
    uint64_t n;
    char names[200];
    switch (c) {
    case 'N':
        o->name = optarg;
        return 0;
    case 'p':
        o->prefix = optarg;
        return 0;
    case 'S':
        o->set = optarg;
        return 0;
    case 'a':
        o->as = optarg;
        return 0;
    case 'r':
        o->replace = true;
        return 0;
    case 'j':
        o->json = true;
        return 0;
    /* for `ddict up` and the like: errors are only in the object */
    case 'R':
        o->json = o->report = true;
        return 0;
    case 'q':
        o->quiet = true;
        return 0;
    case 'H':
        l->here = true;
        return 0;
    case 'A':
        o->anon = true;
        return 0;
    case 'C':
        l->chdir = optarg;
        return 0;
    case 'w':
        o->run = optarg;
        return 0;
    case 'f': /* for ddictd */
        l->owners = optarg;
        o->json = o->report = o->quiet = true;
        return 0;
    case 'x': /* for `ddict rm --set`; with --on-error=skip one that is not there is no error */
        o->set = optarg;
        l->is_removal = true;
        return 0;
    case 'e':
        o->skip = strcmp(optarg, "skip") == 0;
        return o->skip || strcmp(optarg, "stop") == 0
                   ? 0
                   : usage_fail("--on-error=%s: want stop or skip", optarg) + 1;
    case 't':
        if (count_parse(optarg, 1, LOAD_THREADS_MAX, &n) < 0)
            return usage_fail("--threads=%s: want 1 to 64", optarg) + 1;
        o->threads = (unsigned)n;
        return 0;
    case 'h':
        sources_names(names, sizeof names);
        printf(usage, names);
        return (fflush(stdout) == 0 ? EXIT_OK : EXIT_FAILED) + 1;
    default:
        fprintf(stderr, "%.*s\n", (int)strcspn(usage, "\n"), usage);
        return EXIT_USAGE + 1;
    }
}

static char *path_absolute(const char *text, const char *folder) {
    char *path = NULL;
    size_t n;
    if (strstr(text, "://") || *text == '/')
        path = strdup(text);
    else if (asprintf(&path, "%s/%s", folder,
                      strncmp(text, "./", 2) == 0 && text[2] != 0 ? text + 2 : text) < 0)
        path = NULL;
    for (n = path ? strlen(path) : 0; n > 1 && path[n - 1] == '/' && !strstr(path, "://"); n--)
        path[n - 1] = 0;
    return path;
}

static int sources_of_line(struct line *l, int argc, char **argv) {
    char folder[PATH_MAX];
    const char *base = l->chdir ? l->chdir : getcwd(folder, sizeof folder) ? folder : "/";
    l->o.sources = calloc((size_t)(argc - optind) + 1, sizeof *l->o.sources);
    for (int i = optind; l->o.sources && i < argc; i++) {
        if (*argv[i] == 0)
            return usage_fail("a source is %s", "empty");
        if (!(l->o.sources[l->o.nsources++] = path_absolute(argv[i], base)))
            break;
    }
    if (!l->o.sources || l->o.nsources < (unsigned)(argc - optind)) {
        verb_say("out of memory");
        return EXIT_FAILED;
    }
    return l->o.nsources > 0 ? 0 : usage_fail("no %s", "source");
}

/* A worker reads the sources from stdin, which its front writes, each with a 0 after it: there may
 * be more than a command line can hold. */
static int sources_of_stdin(struct line *l) {
    struct pack p = {0};
    char buf[65536];
    ssize_t n;
    while ((n = read(0, buf, sizeof buf)) > 0 || (n < 0 && errno == EINTR))
        if (n > 0)
            pack_bytes(&p, buf, (size_t)n);
    pack_bytes(&p, "", 1);
    size_t count = 0, i = 0;
    for (size_t at = 0; !p.bad && at + 1 < p.len; at++)
        count += p.data[at] == 0;
    l->o.sources = calloc(count + 1, sizeof *l->o.sources);
    if (n < 0 || p.bad || count == 0 || p.len > SOURCES_MAX || !l->o.sources) {
        verb_say("the sources did not come");
        return EXIT_FAILED;
    }
    for (const char *text = (const char *)p.data; i < count; text += strlen(text) + 1)
        l->o.sources[i++] = text; /* p is never freed */
    l->o.nsources = (unsigned)count;
    return 0;
}

static void run_name(char name[LOAD_RUN_CAP]) {
    uint64_t random = 0;
    if (getrandom(&random, sizeof random, 0) != sizeof random)
        random = (uint64_t)getpid() << 32 ^ (uint64_t)(uintptr_t)name;
    snprintf(name, LOAD_RUN_CAP, "%016llx", (unsigned long long)random);
}

/* --- the front of workers on all nodes --- */

static int signal_came(void) {
    return signals_wait(0);
}

/* Returns the exit code, or -ENOENT. */
static int workers_spread(const struct load_options *o) {
    char self[PATH_MAX], run[LOAD_RUN_CAP], threads[16];
    const char *argv[24] = {
        self, "--worker", run, "--prefix", o->prefix, "--on-error", o->skip ? "skip" : "stop"};
    struct pack input = {0};
    int n = 7;
    ssize_t len = readlink("/proc/self/exe", self, sizeof self - 1);
    if (len < 0)
        return dd_error(-errno, "/proc/self/exe: %s", strerror(errno));
    self[len] = 0;
    run_name(run);
    snprintf(threads, sizeof threads, "%u", o->threads);
    const char *name = o->name ? o->name : getenv("DDICT_NAME");
    if (name && *name != 0)
        argv[n++] = "--name", argv[n++] = name;
    if (o->set)
        argv[n++] = "--set", argv[n++] = o->set;
    if (o->as)
        argv[n++] = "--as", argv[n++] = o->as;
    if (o->threads > 0)
        argv[n++] = "--threads", argv[n++] = threads;
    if (o->replace)
        argv[n++] = "--replace";
    if (o->anon)
        argv[n++] = "--anon";
    if (o->json)
        argv[n++] = o->report ? "--report" : "--json";
    if (o->quiet)
        argv[n++] = "--quiet";
    for (unsigned i = 0; i < o->nsources; i++)
        pack_bytes(&input, o->sources[i], strlen(o->sources[i]) + 1);
    struct spread s = {.name = name,
                       .program = argv,
                       .input = input.data,
                       .input_len = input.len,
                       .variables = source_variables,
                       .on_line = progress_line,
                       .signal_came = signal_came};
    int rc = input.bad ? dd_error(-ENOMEM, "out of memory") : launch_spread(&s);
    progress_clear();
    if (rc > 128 && !o->report)
        verb_say("ended by a signal (%s); the same command goes on from here", strsignal(rc - 128));
    pack_free(&input);
    return rc;
}

/* --- */

/* What does not depend on the load. 0 or a negative code. */
static int dictionary_look(struct load *l) {
    int rc = ddict_get_info(l->d, &l->info);
    if (rc < 0)
        return rc;
    for (unsigned i = 0; i < sizeof l->info.id; i++)
        snprintf(l->dictionary + 2 * i, 3, "%02x", l->info.id[i]);
    l->refills = ddict_refills(l->d) == 1;
    uint64_t most =
        l->info.spill_bytes > l->info.total_bytes ? l->info.spill_bytes : l->info.total_bytes;
    l->manager_bytes =
        most / deal_known(l->info.managers, l->info.nodes, ddict_keyed_nodes(l->d)).owners;
    return 0;
}

static int attach_look(const struct load_options *o) {
    int rc = ddict_attach(&the_load.d, o->name, -1);
    if (rc == 0)
        rc = dictionary_look(&the_load);
    return rc < 0 ? load_error(rc) : 0;
}

static int refill_main(const struct load_options *o, const char *owners) {
    /* what another node has may be read again, too: the default would be to wait until it is */
    setenv("DDICT_TIMEOUT", "60", 1);
    int rc = attach_look(o);
    if (rc < 0)
        return load_failed(rc);
    rc = refill_run(owners);
    ddict_detach(the_load.d);
    return rc;
}

static int set_remove_all(const struct load_options *o) {
    struct set_found found = {0};
    int rc = attach_look(o);
    if (rc == 0 && the_load.refills && (rc = losses_find(NULL)) > 0)
        rc = 0;
    if (rc == 0 && strlen(o->set) <= SET_NAME_MAX)
        rc = set_look(o->set, &found);
    if (rc == 0) {
        if (!o->skip || found.lost)
            verb_say("there is no set \"%s\"%s", o->set,
                     found.lost ? ", or its description was lost with nodes: then load it with "
                                  "--replace, and remove it"
                                : "");
        ddict_detach(the_load.d);
        return o->skip ? EXIT_OK : EXIT_NO_KEY;
    }
    rc = rc < 0 ? rc : set_mark_incomplete(o->set);
    rc = rc < 0 ? rc : set_items_remove(o->set, NULL);
    rc = rc < 0 ? rc : set_remove(o->set);
    ddict_detach(the_load.d);
    return rc < 0 ? load_failed(rc) : EXIT_OK;
}

/* We are attached. Returns the exit code. */
static int load_run(const struct load_options *o) {
    struct load *l = &the_load;
    int rc = dictionary_look(l);
    l->workers = 1;
    if (rc == 0 && o->run) {
        snprintf(l->run, sizeof l->run, "%s", o->run);
        l->worker = l->info.node_id; /* there is one on each node */
        l->workers = l->info.nodes;
    } else {
        run_name(l->run);
    }
    l->origins = calloc(o->nsources, sizeof *l->origins);
    if (rc < 0 || !l->origins)
        return load_failed(rc < 0 ? rc : -ENOMEM);
    return l->worker > 0 ? worker_run() : leader_run();
}

int main(int argc, char **argv) {
    static const struct option longs[] = {
        {"help", no_argument, NULL, 'h'},         {"name", required_argument, NULL, 'N'},
        {"prefix", required_argument, NULL, 'p'}, {"set", required_argument, NULL, 'S'},
        {"as", required_argument, NULL, 'a'},     {"on-error", required_argument, NULL, 'e'},
        {"replace", no_argument, NULL, 'r'},      {"json", no_argument, NULL, 'j'},
        {"quiet", no_argument, NULL, 'q'},        {"threads", required_argument, NULL, 't'},
        {"here", no_argument, NULL, 'H'},         {"anon", no_argument, NULL, 'A'},
        {"chdir", required_argument, NULL, 'C'},  {"worker", required_argument, NULL, 'w'},
        {"report", no_argument, NULL, 'R'},       {"refill", required_argument, NULL, 'f'},
        {"remove", required_argument, NULL, 'x'}, {0}};
    struct line l = {.o.prefix = ""};
    int rc, c;
    oom_first();
    argv[0] = (char *)(uintptr_t) "ddict load";
    verb_begin("load");
    /* libarchive converts the times of zip members to local time, which nobody uses; without TZ
     * libc would stat /etc/localtime each time */
    setenv("TZ", "UTC0", 1);
    /* libarchive converts member names to the locale's encoding */
    if (!setlocale(LC_CTYPE, "C.UTF-8"))
        setlocale(LC_CTYPE, "");
    while ((c = getopt_long(argc, argv, "hq", longs, NULL)) != -1)
        if ((rc = option_take(&l, c)) != 0)
            return rc - 1;
    the_load.o = &l.o;
    if (l.is_removal) {
        verb_begin("rm");
        return set_remove_all(&l.o);
    }
    signals_block();
    if (l.owners)
        return refill_main(&l.o, l.owners);
    rc = l.o.run ? sources_of_stdin(&l) : sources_of_line(&l, argc, argv);
    if (rc != 0)
        return rc;
    rc = ddict_attach(&the_load.d, l.o.name, -1);
    bool other = rc == DDICT_ENODICT && !getenv("SLURMD_NODENAME"); /* we are on a login node */
    /* where keys were lost a node is: it would have no worker, and may be the one that leads */
    if (!l.o.run && !l.here &&
        (other || (rc == 0 && ddict_get_info(the_load.d, &the_load.info) == 0 &&
                   the_load.info.nodes > 1 && !losses_exceed(0)))) {
        char why[LOAD_ERROR_MAX];
        snprintf(why, sizeof why, "%s", ddict_errmsg());
        int there = workers_spread(&l.o);
        if (there != -ENOENT) {
            ddict_detach(the_load.d);
            return there < 0 ? load_failed(there) : there;
        }
        if (other)
            dd_error(rc, "%s", why);
    } else if (rc < 0) {
        dd_error(rc, "%s", ddict_errmsg());
    }
    if (rc < 0)
        return load_failed(rc);
    rc = load_run(&l.o);
    if (the_load.nthreads == 0 && !the_load.hangs)
        /* else a thread that hangs in a read may still use the handle */
        ddict_detach(the_load.d);
    for (unsigned i = 0; !l.o.run && i < l.o.nsources; i++)
        free((void *)(uintptr_t)l.o.sources[i]);
    free(l.o.sources);
    free(the_load.origins);
    return rc;
}
