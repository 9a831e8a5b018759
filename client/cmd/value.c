/* SPDX-License-Identifier: Apache-2.0 */
/* value.c - `ddict get`, `ddict put`, `ddict rm`. */
#include "cmd.h"
#include "get_files.h"
#include "value_file.h"
#include "verbs.h"
#include <base/error.h>
#include <base/io.h>
#include <base/size.h>
#include <base/verb.h>

#include <common/key_text.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int cmd_key_read(struct bytes *key, enum key_form form, const char *text, const char *usage) {
    int rc = cmd_key_of(key, form, text);
    if (rc == -ENOMEM) {
        verb_say("no memory");
        return EXIT_FAILED;
    }
    if (rc < 0)
        return cmd_usage(usage, "\"%s\" is no %s", text,
                         form == KEY_INT   ? "int"
                         : form == KEY_RAW ? "key with \\xNN escapes"
                                           : "literal such as 'a', 7 or ('x', 3)");
    return EXIT_OK;
}

/* --- get --- */

static const char get_usage[] =
    "usage: ddict get [OPTION...] KEY | --prefix=P -o DIR [OPTION...]\n"
    "Print the value: str, int, float and bytes of Python as text, an array as a\n"
    "file that numpy.load() reads (on a terminal: its type and shape), other objects\n"
    "as their pickle.\n"
    "  -o, --output=FILE    write it to FILE\n"
    "  -p, --prefix=P       write the values of all str keys that begin with P to\n"
    "                       files in the folder of --output: with P = \"a/b\", of\n"
    "                       \"a/b1/c\" to DIR/b1/c\n"
    "  -n, --limit=N        with --prefix: at most N files\n"
    "  -w, --wait=SECONDS   wait that long for the key to exist\n"
    "  -r, --raw            print the stored bytes, whatever they are\n" CMD_KEY_USAGE
        CMD_COMMON_USAGE "Exit code 3: the key is not there; no key begins with P.\n";

static int value_write(const struct ddict_view *v, const char *file, bool raw) {
    int fd = file ? open(file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666) : 1;
    if (fd < 0) {
        verb_say("%s: %s", file, strerror(errno));
        return EXIT_FAILED;
    }
    int rc = value_file_write(fd, v, raw, !file && isatty(1));
    if (file && close(fd) != 0 && rc == 0)
        rc = -errno;
    if (rc == 0)
        return EXIT_OK;
    verb_say("%s: %s", file ? file : "stdout", strerror(-rc));
    return EXIT_FAILED;
}

struct get {
    enum key_form form;
    bool raw;
    int wait_ms;
    const char *file, *prefix;
    uint64_t limit;
};

static int get_one(const struct get *g, const char *text) {
    struct bytes key = {0};
    struct ddict_view v;
    const char *file = cmd_relayed() ? NULL : g->file;
    int rc = cmd_key_read(&key, g->form, text, get_usage);
    if (file)
        cmd_relay_stdout(file);
    ddict_t *d = rc == EXIT_OK ? cmd_attach() : NULL;
    if (d) {
        int e = ddict_view(d, key.data, key.len, &v, g->wait_ms > 0 ? DDICT_WAIT : 0,
                           g->wait_ms > 0 ? g->wait_ms : -1);
        if (e == -ETIMEDOUT && g->wait_ms > 0)
            e = DDICT_ENOKEY; /* the key was not put in time */
        rc = e < 0 ? cmd_failed(text, e) : value_write(&v, file, g->raw);
        if (e == 0)
            ddict_release(&v);
    } else if (rc == EXIT_OK) {
        rc = EXIT_FAILED;
    }
    bytes_free(&key);
    ddict_detach(d);
    return rc;
}

static int get_all(const struct get *g, int words) {
    if (words > 0 || !g->file)
        return cmd_usage(get_usage, "--prefix wants the folder --output=DIR, and no keys");
    if (g->form != KEY_STR || g->wait_ms > 0)
        return cmd_usage(get_usage, "--prefix is for str keys that are there: it takes no "
                                    "--wait, --int, --literal or --raw-key");
    ddict_t *d = cmd_attach();
    int rc = d ? get_files(d, g->prefix, g->limit, g->raw, g->file) : EXIT_FAILED;
    ddict_detach(d);
    return rc;
}

int cmd_get(int argc, char **argv) {
    static const struct option longs[] = {CMD_LONGS,
                                          CMD_KEY_LONGS,
                                          {"output", required_argument, NULL, 'o'},
                                          {"prefix", required_argument, NULL, 'p'},
                                          {"limit", required_argument, NULL, 'n'},
                                          {"wait", required_argument, NULL, 'w'},
                                          {"raw", no_argument, NULL, 'r'},
                                          {0}};
    struct get g = {.form = KEY_STR, .limit = UINT64_MAX};
    bool limited = false;
    for (int c; (c = cmd_option(argc, argv, "ho:p:n:w:r", longs, get_usage)) != -1;) {
        if (c == '?')
            return EXIT_USAGE;
        if (cmd_key_option(c, &g.form))
            continue;
        limited |= c == 'n';
        if (c == 'o')
            g.file = optarg;
        else if (c == 'p')
            g.prefix = optarg;
        else if (c == 'r')
            g.raw = true;
        else if (c == 'n' && count_parse(optarg, 1, UINT64_MAX, &g.limit) < 0)
            return cmd_usage(get_usage, "--limit=%s: a number from 1 is wanted", optarg);
        else if (c == 'w' && (g.wait_ms = cmd_seconds(optarg)) < 0)
            return cmd_usage(get_usage, "--wait=%s: a number of seconds is wanted", optarg);
    }
    if (g.prefix)
        return get_all(&g, argc - optind);
    if (limited)
        return cmd_usage(get_usage, "--limit is for --prefix");
    if (optind + 1 != argc)
        return cmd_usage(get_usage, "wants one key");
    return get_one(&g, argv[optind]);
}

/* --- put --- */

static const char put_usage[] =
    "usage: ddict put [OPTION...] KEY VALUE|- | --file=FILE [OPTION...] KEY\n"
    "Store VALUE, stdin (-), or the content of FILE. A VALUE that begins with a\n"
    "minus sign follows \"--\": ddict put -- t -5\n"
    "  -f, --file=FILE      store the content of FILE\n"
    "  -t, --type=TYPE      what Python reads back: bytes (default), str, int, float\n"
    "      --new            only if the key is not there (else exit code 3)\n"
    "      --existing       only if the key is there (else exit code 3)\n" CMD_KEY_USAGE
        CMD_COMMON_USAGE;

int cmd_file_read(struct bytes *out, const char *path) {
    bool in = !path || strcmp(path, "-") == 0;
    int fd = in ? 0 : open(path, O_RDONLY | O_CLOEXEC), rc = 0;
    if (fd < 0) {
        verb_say("%s: %s", path, strerror(errno));
        return EXIT_FAILED;
    }
    static char piece[1 << 16];
    ssize_t n = sizeof piece;
    while (rc == 0 && n == sizeof piece) {
        n = read_all(fd, piece, sizeof piece);
        rc = n < 0 ? (int)n : bytes_add(out, piece, (size_t)n);
    }
    if (!in)
        close(fd);
    if (rc == 0)
        return EXIT_OK;
    verb_say("%s: %s", in ? "stdin" : path, strerror(-rc));
    return EXIT_FAILED;
}

/* Turn the text into the stored form of tag. */
static int value_convert(struct bytes *v, unsigned tag) {
    char text[64];
    if (tag != TAG_INT && tag != TAG_FLOAT)
        return 0;
    size_t n = v->len;
    while (n > 0 && (v->data[n - 1] == '\n' || v->data[n - 1] == ' '))
        n--;
    if (n == 0 || n >= sizeof text)
        return -EINVAL;
    memcpy(text, v->data, n);
    text[n] = 0;
    char *end;
    errno = 0;
    v->len = 0;
    if (tag == TAG_INT) {
        long long i = strtoll(text, &end, 10);
        if (errno != 0 || *end != 0)
            return -EINVAL;
        snprintf(text, sizeof text, "%lld", i);
        return bytes_add(v, text, strlen(text));
    }
    double x = strtod(text, &end);
    if (*end != 0)
        return -EINVAL;
    return bytes_add(v, &x, sizeof x);
}

static int value_check(struct bytes *v, unsigned tag) {
    return value_convert(v, tag) == 0 ? EXIT_OK
                                      : cmd_usage(put_usage, "the value is no %s",
                                                  tag == TAG_INT ? "int of 64 bits" : "float");
}

int cmd_put(int argc, char **argv) {
    static const struct option longs[] = {CMD_LONGS,
                                          CMD_KEY_LONGS,
                                          {"file", required_argument, NULL, 'f'},
                                          {"type", required_argument, NULL, 't'},
                                          {"new", no_argument, NULL, 'n'},
                                          {"existing", no_argument, NULL, 'e'},
                                          {0}};
    enum key_form form = KEY_STR;
    const char *file = NULL;
    unsigned tag = TAG_BYTES, flags = 0;
    for (int c; (c = cmd_option(argc, argv, "hf:t:", longs, put_usage)) != -1;) {
        if (c == '?')
            return EXIT_USAGE;
        if (cmd_key_option(c, &form))
            continue;
        if (c == 'f')
            file = optarg;
        else if (c == 'n')
            flags |= DDICT_NEW;
        else if (c == 'e')
            flags |= DDICT_EXISTING;
        else if (strcmp(optarg, "bytes") == 0 || strcmp(optarg, "str") == 0)
            tag = optarg[0] == 's' ? TAG_STR : TAG_BYTES;
        else if (strcmp(optarg, "int") == 0 || strcmp(optarg, "float") == 0)
            tag = optarg[0] == 'i' ? TAG_INT : TAG_FLOAT;
        else
            return cmd_usage(put_usage, "--type=%s: bytes, str, int or float is wanted", optarg);
    }
    if (optind + (file ? 1 : 2) != argc)
        return cmd_usage(put_usage, file ? "put --file wants one key" : "wants a key and a value");
    if (flags == (DDICT_NEW | DDICT_EXISTING))
        return cmd_usage(put_usage, "--new and --existing exclude each other");
    struct bytes key = {0}, val = {0};
    int rc = cmd_key_read(&key, form, argv[optind], put_usage), e;
    bool in = file || strcmp(argv[optind + 1], "-") == 0;
    if (in)
        cmd_relay_stdin(file && strcmp(file, "-") == 0 ? NULL : file);
    else if (rc == EXIT_OK && bytes_add(&val, argv[optind + 1], strlen(argv[optind + 1])) < 0)
        rc = EXIT_FAILED;
    if (rc == EXIT_OK && !in)
        rc = value_check(&val, tag);
    ddict_t *d = rc == EXIT_OK ? cmd_attach() : NULL;
    if (rc == EXIT_OK && !d)
        rc = EXIT_FAILED;
    if (rc == EXIT_OK && in && (rc = cmd_file_read(&val, cmd_relayed() ? NULL : file)) == EXIT_OK)
        rc = value_check(&val, tag);
    if (rc == EXIT_OK &&
        (e = ddict_put(d, key.data, key.len, val.data, val.len, flags | DDICT_TAG(tag), -1)) < 0)
        rc = cmd_failed(argv[optind], e);
    bytes_free(&key);
    bytes_free(&val);
    ddict_detach(d);
    return rc;
}

/* --- rm --- */

static const char rm_usage[] =
    "usage: ddict rm [OPTION...] KEY... | --set=NAME | --all [OPTION...]\n"
    "Remove keys.\n"
    "  -f, --force          a key, or a set, that is not there is no error\n"
    "      --set=NAME       remove a data set, with its items\n"
    "      --all            remove all keys of the dictionary\n" CMD_KEY_USAGE CMD_COMMON_USAGE
    "Exit code 3: a key was not there; the others were removed.\n";

/* ddict-load knows what belongs to a set. */
static int set_rm(const char *set, bool force) {
    ddict_t *d = cmd_attach(); /* or goes to where the dictionary is */
    const char *argv[8] = {"load", "--remove", set};
    int n = 3;
    if (force)
        argv[n++] = "--on-error=skip";
    if (cmd_name())
        argv[n++] = "--name", argv[n++] = cmd_name();
    if (!d)
        return EXIT_FAILED;
    ddict_detach(d);
    return cmd_load(n, (char **)(uintptr_t)argv);
}

static int sealed_say(const char *key) {
    verb_say(
        "%s: the key is of a data set that can be read again: `ddict rm --set=NAME` removes the "
        "set, `ddict load --replace` replaces it, and `ddict ls --sets` lists all",
        key);
    return EXIT_FAILED;
}

int cmd_rm(int argc, char **argv) {
    static const struct option longs[] = {CMD_LONGS,
                                          CMD_KEY_LONGS,
                                          {"force", no_argument, NULL, 'f'},
                                          {"set", required_argument, NULL, 's'},
                                          {"all", no_argument, NULL, 'a'},
                                          {0}};
    enum key_form form = KEY_STR;
    bool force = false, all = false;
    const char *set = NULL;
    for (int c; (c = cmd_option(argc, argv, "hf", longs, rm_usage)) != -1;) {
        if (c == '?')
            return EXIT_USAGE;
        if (cmd_key_option(c, &form))
            continue;
        force |= c == 'f';
        all |= c == 'a';
        set = c == 's' ? optarg : set;
    }
    if (all || set ? optind < argc || (all && set) : optind == argc)
        return cmd_usage(rm_usage, all || set ? "--all and --set stand alone, without keys"
                                              : "wants keys, --set or --all");
    if (set)
        return set_rm(set, force);
    struct bytes key = {0};
    for (int i = optind; i < argc; i++) { /* check all keys before the first is removed */
        int rc = cmd_key_read(&key, form, argv[i], rm_usage);
        if (rc != EXIT_OK) {
            bytes_free(&key);
            return rc;
        }
    }
    ddict_t *d = cmd_attach();
    int rc = !d ? EXIT_FAILED : EXIT_OK, e;
    if (d && all && (e = ddict_clear(d, -1)) < 0)
        rc = cmd_failed(NULL, e);
    for (int i = optind; d && i < argc; i++) {
        cmd_key_read(&key, form, argv[i], rm_usage);
        e = ddict_del(d, key.data, key.len, -1);
        if (e < 0 && !(force && key_is_absent(e))) {
            int code = e == DDICT_ESEALED ? sealed_say(argv[i]) : cmd_failed(argv[i], e);
            rc = rc == EXIT_FAILED ? rc : code;
        }
    }
    bytes_free(&key);
    ddict_detach(d);
    return rc;
}
