/* SPDX-License-Identifier: Apache-2.0 */
/*
 * s3_config.c - the files of the AWS tools: sections in brackets, `name = value` lines, and
 * indented lines below a name without a value: `addressing_style` below `s3` is called
 * "s3.addressing_style" here. Format: AWS CLI User Guide, "Configuration and credential file
 * settings".
 */
#include "s3_config.h"

#include <base/defaults.h>
#include <base/error.h>

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *text_trim(char *text) {
    while (isspace((unsigned char)*text))
        text++;
    char *end = text + strlen(text);
    while (end > text && isspace((unsigned char)end[-1]))
        *--end = 0;
    return text;
}

static const char *variable_get(const char *name) {
    const char *v = getenv(name);
    return v && *v != 0 ? v : NULL;
}

/* The path of the file: from its variable, else in ~/.aws. Empty: there is no home folder. */
static void file_path(char *out, size_t cap, const char *name, const char *file) {
    const char *path = variable_get(name), *home = variable_get("HOME");
    if (path && strncmp(path, "~/", 2) == 0 && home)
        snprintf(out, cap, "%s/%s", home, path + 2);
    else if (path)
        snprintf(out, cap, "%s", path);
    else if (home)
        snprintf(out, cap, "%s/.aws/%s", home, file);
    else
        *out = 0;
}

struct s3_setting {
    const char *name; /* name in the file */
    char *to;
    size_t cap;
};

static int setting_take(const struct s3_setting *settings, const char *path, const char *name,
                        const char *value) {
    for (const struct s3_setting *s = settings; s->name; s++) {
        if (strcmp(s->name, name) != 0 || *s->to != 0)
            continue;
        if (strlen(value) >= s->cap)
            return dd_error(-EINVAL, "%s: %s is longer than %zu bytes", path, name, s->cap - 1);
        memcpy(s->to, value, strlen(value) + 1);
    }
    return 0;
}

/*
 * Take the section's values for settings that are not set yet. *found: the section exists. A
 * missing file is no error.
 */
static int file_read(const char *path, const char *section, const struct s3_setting *settings,
                     bool *found) {
    char *line = NULL, above[64] = "", name[192];
    size_t cap = 0;
    ssize_t n;
    int rc = 0;
    bool inside = false;
    FILE *f = *path != 0 ? fopen(path, "re") : NULL;
    *found = false;
    if (!f)
        return *path == 0 || errno == ENOENT || errno == ENOTDIR
                   ? 0
                   : dd_error(-EINVAL, "cannot read %s: %s", path, strerror(errno));
    while (rc == 0 && (n = getline(&line, &cap, f)) >= 0) {
        bool indented = line[0] == ' ' || line[0] == '\t';
        char *text = text_trim(line), *value = strchr(text, '=');
        if (*text == 0 || *text == '#' || *text == ';')
            continue;
        if (*text == '[') {
            char *end = strchr(text, ']');
            if (!end) {
                rc = dd_error(-EINVAL, "%s: a section without ]: %.60s", path, text);
                break;
            }
            *end = 0;
            inside = strcmp(text_trim(text + 1), section) == 0;
            *found |= inside;
            *above = 0;
            continue;
        }
        if (!inside || !value)
            continue;
        *value++ = 0;
        text = text_trim(text);
        value = text_trim(value);
        if (!indented)
            snprintf(above, sizeof above, "%s", *value == 0 ? text : "");
        snprintf(name, sizeof name, "%s%s%.100s", indented ? above : "",
                 indented && *above != 0 ? "." : "", text);
        rc = setting_take(settings, path, name, value);
    }
    if (line)
        explicit_bzero(line, cap);
    free(line);
    if (rc == 0 && ferror(f))
        rc = dd_error(-EINVAL, "cannot read %s: %s", path, strerror(errno));
    fclose(f);
    return rc;
}

static int take_variable(char *to, size_t cap, const char *name) {
    const char *v = variable_get(name);
    if (!v || *to != 0)
        return 0;
    if (strlen(v) >= cap)
        return dd_error(-EINVAL, "%s is longer than %zu bytes", name, cap - 1);
    memcpy(to, v, strlen(v) + 1);
    return 0;
}

static int attempts_parse(const char *text, unsigned *out) {
    char *end;
    unsigned long n = strtoul(text, &end, 10);
    if (*text == 0)
        n = DD_S3_ATTEMPTS;
    else if (!isdigit((unsigned char)*text) || *end != 0 || n < 1 || n > 100)
        return dd_error(-EINVAL,
                        "AWS_MAX_ATTEMPTS (max_attempts) is a number from 1 to 100, not \"%.40s\"",
                        text);
    *out = (unsigned)n;
    return 0;
}

static int endpoint_check(char *url) {
    size_t n = strlen(url);
    while (n > 0 && url[n - 1] == '/')
        url[--n] = 0;
    if (n > 0 && strncmp(url, "http://", 7) != 0 && strncmp(url, "https://", 8) != 0)
        return dd_error(
            -EINVAL, "the endpoint of S3 is a URL such as https://s3.example.org, not \"%.200s\"",
            url);
    return 0;
}

#define TRIES_CAP 24 /* for the number of attempts as text */

static int keys_check(const struct s3_config *c, const char *profile) {
    bool access = *c->access != 0;
    if (access == (*c->secret != 0))
        return 0;
    if (profile)
        return dd_error(-EINVAL,
                        "profile %.60s has only one of aws_access_key_id and "
                        "aws_secret_access_key",
                        profile);
    return dd_error(-EINVAL, "%s is set, and %s is not",
                    access ? "AWS_ACCESS_KEY_ID" : "AWS_SECRET_ACCESS_KEY",
                    access ? "AWS_SECRET_ACCESS_KEY" : "AWS_ACCESS_KEY_ID");
}

static int variables_read(struct s3_config *c, char tries[TRIES_CAP]) {
    int rc = take_variable(c->access, sizeof c->access, "AWS_ACCESS_KEY_ID");
    rc = rc < 0 ? rc : take_variable(c->secret, sizeof c->secret, "AWS_SECRET_ACCESS_KEY");
    rc = rc < 0 ? rc : take_variable(c->token, sizeof c->token, "AWS_SESSION_TOKEN");
    rc = rc < 0 ? rc : take_variable(c->region, sizeof c->region, "AWS_REGION");
    rc = rc < 0 ? rc : take_variable(c->region, sizeof c->region, "AWS_DEFAULT_REGION");
    rc = rc < 0 ? rc : take_variable(c->endpoint, sizeof c->endpoint, "AWS_ENDPOINT_URL_S3");
    rc = rc < 0 ? rc : take_variable(c->endpoint, sizeof c->endpoint, "AWS_ENDPOINT_URL");
    rc = rc < 0 ? rc : take_variable(c->ca, sizeof c->ca, "AWS_CA_BUNDLE");
    rc = rc < 0 ? rc : take_variable(tries, TRIES_CAP, "AWS_MAX_ATTEMPTS");
    return rc < 0 ? rc : keys_check(c, NULL);
}

/* Fill in the settings that no variable has set: first the profile's credentials, then the rest of
 * it. */
static int files_read(struct s3_config *c, char tries[TRIES_CAP]) {
    char credentials[1024], config[1024], section[160];
    const char *profile = variable_get("AWS_PROFILE"), *name = profile ? profile : "default";
    const struct s3_setting keys[] = {{"aws_access_key_id", c->access, sizeof c->access},
                                      {"aws_secret_access_key", c->secret, sizeof c->secret},
                                      {"aws_session_token", c->token, sizeof c->token},
                                      {NULL, NULL, 0}};
    const struct s3_setting others[] = {{"region", c->region, sizeof c->region},
                                        {"endpoint_url", c->endpoint, sizeof c->endpoint},
                                        {"s3.endpoint_url", c->endpoint, sizeof c->endpoint},
                                        {"s3.addressing_style", c->style, sizeof c->style},
                                        {"ca_bundle", c->ca, sizeof c->ca},
                                        {"max_attempts", tries, TRIES_CAP},
                                        {NULL, NULL, 0}};
    bool found = false, elsewhere = false;
    int rc = 0;
    file_path(credentials, sizeof credentials, "AWS_SHARED_CREDENTIALS_FILE", "credentials");
    file_path(config, sizeof config, "AWS_CONFIG_FILE", "config");
    snprintf(c->looked, sizeof c->looked, "AWS_ACCESS_KEY_ID and profile %.60s of %s and %s", name,
             *credentials ? credentials : "~/.aws/credentials", *config ? config : "~/.aws/config");
    if (*c->access == 0)
        rc = file_read(credentials, name, keys, &elsewhere);
    snprintf(section, sizeof section, "%s%.140s", strcmp(name, "default") == 0 ? "" : "profile ",
             name);
    if (rc == 0 && *c->access == 0)
        rc = file_read(config, section, keys, &found);
    if (rc == 0)
        rc = file_read(config, section, others, &found);
    if (rc == 0 && profile && !found && !elsewhere && *c->access == 0)
        rc = dd_error(-EINVAL, "AWS_PROFILE is %.60s, and neither %s nor %s has that profile",
                      profile, credentials, config);
    rc = rc < 0 ? rc : keys_check(c, name);
    if (rc == 0 && *c->style != 0 && strcmp(c->style, "path") != 0 &&
        strcmp(c->style, "virtual") != 0 && strcmp(c->style, "auto") != 0)
        rc = dd_error(-EINVAL, "%s: addressing_style is path, virtual or auto, not \"%s\"", config,
                      c->style);
    return rc;
}

static void keys_forget(struct s3_config *c) {
    explicit_bzero(c->access, sizeof c->access);
    explicit_bzero(c->secret, sizeof c->secret);
    explicit_bzero(c->token, sizeof c->token);
    snprintf(c->looked, sizeof c->looked, "none were looked for, as was asked");
}

int s3_config_read(struct s3_config *c, bool anonymous) {
    char tries[TRIES_CAP] = "";
    memset(c, 0, sizeof *c);
    int rc = variables_read(c, tries);
    if (rc < 0)
        return rc;
    rc = files_read(c, tries);
    rc = rc < 0 ? rc : endpoint_check(c->endpoint);
    rc = rc < 0 ? rc : attempts_parse(tries, &c->attempts);
    if (rc < 0) {
        s3_config_wipe(c);
        return rc;
    }
    if (anonymous)
        keys_forget(c);
    if (*c->region == 0)
        strcpy(c->region, "us-east-1");
    if (!s3_region_good(c->region))
        return dd_error(-EINVAL,
                        "AWS_REGION (region) is lower case letters, digits and '-', not \"%.40s\"",
                        c->region);
    if (*c->style == 0)
        strcpy(c->style, "auto");
    return 0;
}

bool s3_region_good(const char *region) {
    size_t n = strlen(region);
    return n > 0 && strspn(region, "abcdefghijklmnopqrstuvwxyz0123456789-") == n &&
           region[0] != '-' && region[n - 1] != '-';
}

void s3_config_wipe(struct s3_config *c) {
    explicit_bzero(c, sizeof *c);
}

bool s3_config_by_path(const struct s3_config *c, const char *bucket) {
    if (strcmp(c->style, "auto") != 0)
        return strcmp(c->style, "path") == 0;
    if (*c->endpoint != 0)
        return true;
    for (const char *b = bucket; *b != 0; b++)
        /* no certificate matches a bucket name with a dot */
        if (!islower((unsigned char)*b) && !isdigit((unsigned char)*b) && *b != '-')
            return true;
    return false;
}
