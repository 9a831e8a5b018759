/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_data.c - `ddict ls`, `get`, `put`, `rm`: the dictionary from a shell. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jansson.h>
#include <base/size.h>
#include "cmd.h"
#include "cmd_key.h"

struct data_options {
    const char *name, *prefix, *file, *output;
    enum key_form form;
    bool json, lengths, only_new, only_existing;
    long limit;
    int wait_ms;
};

enum { O_NAME = 256, O_RAW, O_INT, O_NEW, O_EXISTING, O_WAIT, O_PREFIX, O_LIMIT, O_JSON };
static const struct option long_options[] = {
    {"name", 1, NULL, O_NAME},   {"raw-key", 0, NULL, O_RAW},   {"int", 0, NULL, O_INT},       {"new", 0, NULL, O_NEW},
    {"existing", 0, NULL, O_EXISTING}, {"wait", 1, NULL, O_WAIT}, {"prefix", 1, NULL, O_PREFIX}, {"limit", 1, NULL, O_LIMIT},
    {"json", 0, NULL, O_JSON},   {"file", 1, NULL, 'f'},        {"output", 1, NULL, 'o'},      {"long", 0, NULL, 'l'},
    {"help", 0, NULL, 'h'},      {0}};

static const char key_help[] =
    "KEY is a text key (Python's str); --int: a number (Python's int); --raw-key: the bytes as given.\n";

/* Parse; allowed: the options that this verb has. -1 to go on, else an exit code. */
static int parse(int argc, char **argv, const char *allowed, const char *help, struct data_options *o) {
    *o = (struct data_options){.limit = -1, .wait_ms = -1};
    for (int c; (c = getopt_long(argc, argv, "+f:o:lh", long_options, NULL)) != -1;) {
        if (c == '?') return cmd_usage(argv[0], "unknown option, or one without its value");
        if (c == 'h') {
            fputs(help, stdout);
            return cmd_flush(argv[0]);
        }
        static const struct { int c; char letter; } letters[] = {{O_RAW, 'k'}, {O_INT, 'k'}, {O_NEW, 'm'}, {O_EXISTING, 'm'},
                                                                 {O_WAIT, 'w'}, {O_PREFIX, 'p'}, {O_LIMIT, 'p'}, {O_JSON, 'j'}};
        char letter = c < 256 ? (char)c : 'n';
        for (size_t i = 0; i < sizeof letters / sizeof *letters; i++)
            if (letters[i].c == c) letter = letters[i].letter;
        if (c != O_NAME && !strchr(allowed, letter)) return cmd_usage(argv[0], "this verb has no such option");
        char *end;
        switch (c) {
        case O_NAME: o->name = optarg; break;
        case O_RAW: o->form = KEY_RAW; break;
        case O_INT: o->form = KEY_INT; break;
        case O_NEW: o->only_new = true; break;
        case O_EXISTING: o->only_existing = true; break;
        case O_PREFIX: o->prefix = optarg; break;
        case O_JSON: o->json = true; break;
        case 'f': o->file = optarg; break;
        case 'o': o->output = optarg; break;
        case 'l': o->lengths = true; break;
        case O_LIMIT:
            o->limit = strtol(optarg, &end, 10);
            if (end == optarg || *end || o->limit < 0) return cmd_usage(argv[0], "--limit=%s: a number of keys is wanted", optarg);
            break;
        case O_WAIT: {
            double s = strtod(optarg, &end);
            if (end == optarg || *end || !(s >= 0 && s < 2e6)) return cmd_usage(argv[0], "--wait=%s: seconds are wanted", optarg);
            o->wait_ms = (int)(s * 1000);
        }
        }
    }
    return -1;
}

/* --- ls --- */
static bool matches(const struct data_options *o, const void *key, size_t len) {
    if (!o->prefix) return true;
    size_t text_len, n = strlen(o->prefix);
    const char *text = key_text(key, len, &text_len);
    if (!text) {
        text = key;
        text_len = len;
    }
    return text_len >= n && !memcmp(text, o->prefix, n);
}

static void list_json(const void *key, size_t klen, bool lengths, size_t vlen, bool first) {
    char *shown = NULL;
    size_t n = 0;
    FILE *mem = open_memstream(&shown, &n);
    if (!mem) return;
    key_print(mem, key, klen);
    fclose(mem);
    json_t *k = json_string(shown); /* NULL where it is no UTF-8 */
    char *text = k ? json_dumps(k, JSON_ENCODE_ANY) : NULL;
    printf("%s{\"key\": %s", first ? "" : ",\n ", text ? text : "null");
    if (lengths) printf(", \"bytes\": %zu", vlen);
    putchar('}');
    free(text);
    json_decref(k);
    free(shown);
}

int cmd_ls(int argc, char **argv) {
    struct data_options o;
    int rc = parse(argc, argv, "pjl",
                   "Usage: ddict ls [--prefix TEXT] [--limit N] [-l] [--json] [--name NAME]\n\nList the keys, as Python writes them: 'text', b'bytes', 7, ('a', 7).\n"
                   "-l: with the length of each value. Keys that come or go meanwhile may be missing.\n",
                   &o);
    if (rc >= 0) return rc;
    if (optind < argc) return cmd_usage("ls", "unexpected argument '%s'", argv[optind]);
    ddict_t *d;
    ddict_iter_t *it;
    if ((rc = cmd_attach("ls", o.name, &d))) return rc;
    if ((rc = ddict_iter_open(d, -1, &it, -1)) < 0) {
        rc = cmd_failed("ls", rc);
        ddict_detach(d);
        return rc;
    }
    const void *key;
    size_t klen, vlen = 0;
    long shown = 0;
    if (o.json) putchar('[');
    while ((o.limit < 0 || shown < o.limit) && (rc = ddict_iter_next(it, &key, &klen)) > 0) {
        if (!matches(&o, key, klen)) continue;
        if (o.lengths && (rc = ddict_contains(d, key, klen, &vlen, -1)) < 0) break;
        if (o.lengths && rc == 0) continue; /* gone meanwhile */
        if (o.json) list_json(key, klen, o.lengths, vlen, shown == 0);
        else {
            if (o.lengths) printf("%12zu  ", vlen);
            key_print(stdout, key, klen);
            putchar('\n');
        }
        shown++;
    }
    if (o.json) puts("]");
    rc = rc < 0 ? cmd_failed("ls", rc) : EXIT_OK;
    ddict_iter_close(it);
    ddict_detach(d);
    return rc ? rc : cmd_flush("ls");
}

/* --- get --- */
static int write_all(int fd, const char *p, size_t n) {
    while (n) {
        ssize_t w = write(fd, p, n > 1 << 30 ? 1 << 30 : n);
        if (w < 0 && errno == EINTR) continue;
        if (w < 0) return -errno;
        p += w;
        n -= (size_t)w;
    }
    return 0;
}

static int value_out(const struct ddict_view *v, const char *path) {
    int fd = path ? open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666) : STDOUT_FILENO;
    int rc = fd < 0 ? -errno : write_all(fd, v->data, v->len);
    if (path && fd >= 0 && close(fd) < 0 && rc == 0) rc = -errno;
    if (rc == 0) return EXIT_OK;
    fprintf(stderr, "ddict get: cannot write %s: %s\n", path ? path : "to stdout", strerror(-rc));
    return EXIT_ERROR;
}

int cmd_get(int argc, char **argv) {
    struct data_options o;
    static char help[512], key[DDICT_KEY_MAX];
    snprintf(help, sizeof help, "Usage: ddict get [--int | --raw-key] [--wait SECONDS] [-o FILE] [--name NAME] KEY\n\nWrite the bytes of the value to stdout, or to FILE.\n%s"
                                "--wait: wait until the key is there. Exit code 3 when it is not.\n", key_help);
    int rc = parse(argc, argv, "kwo", help, &o);
    if (rc >= 0) return rc;
    if (argc - optind != 1) return cmd_usage("get", "one KEY is wanted");
    const char *why = NULL;
    size_t klen = key_encode(o.form, argv[optind], key, &why);
    if (why) return cmd_usage("get", "%s", why);
    ddict_t *d;
    struct ddict_view v;
    if ((rc = cmd_attach("get", o.name, &d))) return rc;
    rc = ddict_view(d, key, klen, &v, o.wait_ms >= 0 ? DDICT_WAIT : 0, o.wait_ms);
    if (rc == DDICT_ENOKEY || (rc == -ETIMEDOUT && o.wait_ms >= 0)) {
        fprintf(stderr, "ddict get: there is no key '%s'%s\n", argv[optind], rc == DDICT_ENOKEY ? "" : " yet");
        rc = EXIT_NO_KEY;
    } else if (rc < 0) rc = cmd_failed("get", rc);
    else {
        rc = value_out(&v, o.output);
        ddict_release(&v);
    }
    ddict_detach(d);
    return rc;
}

/* --- put --- */
/* The whole of a descriptor, malloc'ed. */
static int read_all(int fd, char **out, size_t *len) {
    struct stat st;
    size_t cap = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) ? (size_t)st.st_size + 1 : 65536;
    char *buf = malloc(cap);
    size_t n = 0;
    for (;;) {
        if (buf && n == cap) {
            char *more = realloc(buf, cap *= 2);
            if (!more) free(buf);
            buf = more;
        }
        if (!buf) return -ENOMEM;
        size_t room = cap - n;
        ssize_t r = read(fd, buf + n, room > 1 << 30 ? 1 << 30 : room);
        if (r < 0 && errno == EINTR) continue;
        if (r < 0) {
            int e = -errno;
            free(buf);
            return e;
        }
        if (r == 0) break;
        n += (size_t)r;
    }
    *out = buf;
    *len = n;
    return 0;
}

static int value_in(const char *path, char **val, size_t *len) {
    bool in = !strcmp(path, "-");
    int fd = in ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC), rc = fd < 0 ? -errno : read_all(fd, val, len);
    if (!in && fd >= 0) close(fd);
    if (rc < 0) fprintf(stderr, "ddict put: cannot read %s: %s\n", in ? "stdin" : path, strerror(-rc));
    return rc < 0 ? EXIT_ERROR : EXIT_OK;
}

int cmd_put(int argc, char **argv) {
    struct data_options o;
    static char help[768], key[DDICT_KEY_MAX];
    snprintf(help, sizeof help, "Usage: ddict put [--int | --raw-key] [--new | --existing] [--name NAME] KEY VALUE\n       ddict put [OPTION]... --file FILE KEY\n\n"
                                "Store the bytes of VALUE, of FILE, or of stdin where either is '-'. Python reads them as bytes.\n%s"
                                "--new: only when the key is not there; --existing: only when it is.\n", key_help);
    int rc = parse(argc, argv, "kmf", help, &o);
    if (rc >= 0) return rc;
    if (argc - optind != (o.file ? 1 : 2)) return cmd_usage("put", o.file ? "with --file, one KEY is wanted" : "KEY and VALUE are wanted");
    if (o.only_new && o.only_existing) return cmd_usage("put", "--new and --existing exclude each other");
    const char *why = NULL, *key_arg = argv[optind], *from = o.file ? o.file : !strcmp(argv[optind + 1], "-") ? "-" : NULL;
    size_t klen = key_encode(o.form, key_arg, key, &why), vlen = from ? 0 : strlen(argv[optind + 1]);
    if (why) return cmd_usage("put", "%s", why);
    char *read = NULL;
    if (from && (rc = value_in(from, &read, &vlen))) return rc;
    ddict_t *d;
    if ((rc = cmd_attach("put", o.name, &d)) == 0) {
        rc = ddict_put(d, key, klen, from ? read : argv[optind + 1], vlen, o.only_new ? DDICT_NEW : o.only_existing ? DDICT_EXISTING : 0, -1);
        if (rc == DDICT_ENOKEY || rc == DDICT_EEXISTS) {
            fprintf(stderr, "ddict put: the key '%s' is %s\n", key_arg, rc == DDICT_ENOKEY ? "not there" : "there already");
            rc = rc == DDICT_ENOKEY ? EXIT_NO_KEY : EXIT_ERROR;
        } else if (rc < 0) rc = cmd_failed("put", rc);
        ddict_detach(d);
    }
    free(read);
    return rc;
}

/* --- rm --- */
int cmd_rm(int argc, char **argv) {
    struct data_options o;
    static char help[512], key[DDICT_KEY_MAX];
    snprintf(help, sizeof help, "Usage: ddict rm [--int | --raw-key] [--name NAME] KEY...\n\nRemove keys.\n%sExit code 3 when one was not there; the others are removed.\n", key_help);
    int rc = parse(argc, argv, "k", help, &o), worst = EXIT_OK;
    if (rc >= 0) return rc;
    if (optind == argc) return cmd_usage("rm", "at least one KEY is wanted");
    ddict_t *d;
    if ((rc = cmd_attach("rm", o.name, &d))) return rc;
    for (int i = optind; i < argc && worst != EXIT_ERROR; i++) {
        const char *why = NULL;
        size_t klen = key_encode(o.form, argv[i], key, &why);
        if (why) {
            worst = cmd_usage("rm", "%s: %s", argv[i], why);
            break;
        }
        rc = ddict_del(d, key, klen, -1);
        if (rc == DDICT_ENOKEY) {
            fprintf(stderr, "ddict rm: there is no key '%s'\n", argv[i]);
            worst = EXIT_NO_KEY;
        } else if (rc < 0) worst = cmd_failed("rm", rc);
    }
    ddict_detach(d);
    return worst;
}
