/* SPDX-License-Identifier: Apache-2.0 */
/* attach.c - the handle: attach, detach, facts about the dictionary, and ddict_down(). */
#include "async.h"
#include "lease.h"
#include "near.h"
#include "up.h"
#include "window.h"
#include <base/user.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *no_name_text(void) {
    return "no dictionary: DDICT_NAME is not set; was the job started with srun --ddict-mem=... "
           "(and is the plugin installed on this node?) "
           "or with ddict run?";
}

/* Write "<uid>.<job>.job" to name; -1 outside of a Slurm job. */
static int job_dict_name(char name[DICT_NAME_MAX]) {
    const char *job = getenv("SLURM_JOB_ID");
    if (!job || *job == 0 || strlen(job) != strspn(job, "0123456789"))
        return -1;
    return snprintf(name, DICT_NAME_MAX, "%lu.%s.job", user_of_job(), job) < DICT_NAME_MAX ? 0 : -1;
}

/* A dictionary of a job of salloc starts with the first srun: say so. Not for tasks, which know its
 * name once they have found one, and not for batch scripts: if they have no name, the plugin is
 * missing. */
static void not_yet_text(const char *name) {
    const char *set = getenv("DDICT_NAME"), *file = getenv("DDICT_SOCKET");
    const char *by = getenv("ENVIRONMENT"); /* Slurm sets it to BATCH in a batch script */
    char own[DICT_NAME_MAX];
    if (!getenv(JOB_VARIABLE) || (by && strcmp(by, "BATCH") == 0) || (set && *set != 0) ||
        (file && *file != 0) || job_dict_name(own) < 0 || strcmp(name, own) != 0)
        return;
    dd_error(DDICT_ENODICT,
             "no dictionary: job %s's starts with its first srun (srun -n1 true will do); there "
             "was none yet, or it has ended",
             getenv("SLURM_JOB_ID"));
}

/* The name to use, or NULL with *rc set; own: buffer for the name of the job's dictionary. */
static const char *name_choose(const char *name, char own[DICT_NAME_MAX], int *rc) {
    own[0] = 0;
    if (!name)
        name = getenv("DDICT_NAME");
    if ((!name || *name == 0) && job_dict_name(own) == 0)
        name = own;
    if (!name || *name == 0) {
        *rc = dd_error(DDICT_ENODICT, "%s", no_name_text());
        return NULL;
    }
    if (strlen(name) >= DICT_NAME_MAX || strchr(name, '/')) {
        *rc = dd_error(-EINVAL,
                       "\"%.80s\" is not the name of a dictionary: %s; names have letters, digits, "
                       "'.', '_' and '-', %d at most",
                       name, strchr(name, '/') ? "it has a '/'" : "it is too long",
                       DICT_NAME_MAX - 1);
        return NULL;
    }
    return name;
}

static void handle_list(ddict_t *d) {
    pthread_mutex_lock(&registry_lock);
    d->next = handles;
    handles = d;
    pthread_mutex_unlock(&registry_lock);
}

static void handle_unlist(ddict_t *d) {
    pthread_mutex_lock(&registry_lock);
    struct ddict_handle **at = &handles;
    while (*at && *at != d)
        at = &(*at)->next;
    if (*at)
        *at = d->next;
    pthread_mutex_unlock(&registry_lock);
}

static void handle_free(ddict_t *d) {
    session_abandon(d->opening, false);
    near_left_free(d->near_left);
    pthread_mutex_destroy(&d->lock);
    free(d);
}

/* In the list from the start, so that a child forked meanwhile closes what it inherits. */
static int handle_open(ddict_t *d, int timeout_ms) {
    struct deadline until;
    deadline_start(&until, session_timeout(timeout_ms));
    handle_list(d);
    pthread_mutex_lock(&d->lock);
    int rc = session_open_by(&d->session, &d->opening, d->name, &until);
    if (rc == 0)
        d->session_id = d->session->id;
    pthread_mutex_unlock(&d->lock);
    if (rc < 0)
        handle_unlist(d);
    return rc;
}

int ddict_attach(ddict_t **out, const char *name, int timeout_ms) {
    char own[DICT_NAME_MAX];
    int rc = 0;
    if (!out)
        return dd_error(-EINVAL, "attach without a place for the handle");
    *out = NULL;
    name = name_choose(name, own, &rc);
    if (!name)
        return rc;
    if ((rc = fork_handlers_install()) < 0)
        return rc;
    struct ddict_handle *d = calloc(1, sizeof *d);
    if (!d)
        return dd_error(-ENOMEM, "no memory for a handle");
    strcpy(d->name, name);
    pthread_mutex_init(&d->lock, NULL);
    rc = handle_open(d, timeout_ms);
    if (rc == DDICT_ENODICT && own[0] != 0)
        dd_error(rc,
                 "no dictionary: DDICT_NAME is not set and this node has no %s, the dictionary of "
                 "the job; was the job submitted with --ddict-mem=... (and is the plugin installed "
                 "on this node?)",
                 own);
    if (rc == DDICT_ENODICT)
        not_yet_text(name);
    if (rc < 0) {
        handle_free(d);
        return rc;
    }
    *out = d;
    return 0;
}

int ddict_detach(ddict_t *d) {
    if (!d)
        return 0;
    handle_unlist(d);
    async_detach(d);
    window_detach(d);
    if (d->session)
        session_close(d->session);
    handle_free(d);
    return 0;
}

/* Another thread may hold the lock, with a longer timeout than ours. */
static bool lock_by(pthread_mutex_t *lock, struct deadline *d) {
    while (pthread_mutex_trylock(lock) != 0) {
        if (deadline_over(d))
            return false;
        usleep(200);
    }
    return true;
}

int handle_revive(ddict_t *d, struct session **out, int timeout_ms) {
    struct deadline until;
    deadline_start(&until, session_timeout(timeout_ms));
    if (!lock_by(&d->lock, &until))
        return dd_error(-ETIMEDOUT, "this process was forked, and its handle is not attached yet");
    struct session *s = __atomic_load_n(&d->session, __ATOMIC_ACQUIRE);
    int rc = 0;
    if (!s && (rc = session_open_by(&s, &d->opening, d->name, &until)) == 0) {
        /* pairs with the load in session_enter() */
        __atomic_store_n(&d->session, s, __ATOMIC_RELEASE);
        /* relaxed: threads that entered by `session` do not read it */
        __atomic_store_n(&d->session_id, s->id, __ATOMIC_RELAXED);
    }
    pthread_mutex_unlock(&d->lock);
    *out = s;
    return rc;
}

int ddict_get_info(ddict_t *d, struct ddict_info *info) {
    struct session *s = __atomic_load_n(&d->session, __ATOMIC_ACQUIRE);
    int rc = 0;
    if (!s && (rc = handle_revive(d, &s, -1)) < 0)
        return rc;
    memset(info, 0, sizeof *info);
    info->name = d->name;
    info->node = s->node;
    info->managers = s->managers;
    info->nodes = s->nodes;
    info->node_id = s->node_id;
    info->local_managers = s->nlocal;
    info->total_bytes = s->total_bytes;
    info->spill_bytes = s->spill_bytes;
    memcpy(info->id, s->dict_id, sizeof info->id);
    return 0;
}

unsigned ddict_owner(ddict_t *d, const void *key, size_t klen) {
    struct session *s = __atomic_load_n(&d->session, __ATOMIC_ACQUIRE);
    if (!s && handle_revive(d, &s, -1) < 0)
        return 0;
    return deal_owner(&s->deal, key, klen, key_hash(key, klen));
}

ssize_t ddict_key_at(ddict_t *d, unsigned manager, const void *key, size_t klen, void *out,
                     size_t cap) {
    struct session *s;
    int rc = session_enter(d, &s, -1);
    if (rc < 0)
        return rc;
    if (manager >= s->managers || !deal_owns(&s->deal, manager))
        return dd_error(-EINVAL, "there is no manager %u that has keys", manager);
    if ((rc = key_check(klen)) < 0)
        return rc;
    bool plain = deal_owner(&s->deal, key, klen, key_hash(key, klen)) == manager;
    size_t head = plain ? 0 : DIRECT_HEAD;
    if ((rc = key_check(head + klen)) < 0)
        return rc;
    if (cap < head + klen)
        return dd_error(DDICT_ESMALL, "a key of %zu bytes and room for %zu", head + klen, cap);
    if (!plain) {
        memcpy(out, DIRECT_WORD, DIRECT_LEN);
        memcpy((uint8_t *)out + DIRECT_LEN, &(uint32_t){manager}, sizeof(uint32_t));
    }
    memcpy((uint8_t *)out + head, key, klen);
    return (ssize_t)(head + klen);
}

ssize_t ddict_key_tag(ddict_t *d, unsigned manager, char *out, size_t cap) {
    struct session *s;
    char tag[DDICT_KEY_TAG];
    int rc = session_enter(d, &s, -1), len = 0;
    if (rc < 0)
        return rc;
    if (manager >= s->managers || !deal_owns(&s->deal, manager))
        return dd_error(-EINVAL, "there is no manager %u that has keys", manager);
    /* one in so many is the manager's */
    for (unsigned n = 0;
         len == 0 || deal_owner(&s->deal, tag, (size_t)len, key_hash(tag, (size_t)len)) != manager;
         n++)
        len = snprintf(tag, sizeof tag, "{%u}", n);
    if (cap < (size_t)len + 1)
        return dd_error(DDICT_ESMALL, "a tag of %d bytes and room for %zu", len + 1, cap);
    memcpy(out, tag, (size_t)len + 1);
    return len;
}

unsigned ddict_keyed_nodes(ddict_t *d) {
    struct session *s = __atomic_load_n(&d->session, __ATOMIC_ACQUIRE);
    if (!s && handle_revive(d, &s, -1) < 0)
        return 0;
    return s->deal.keyed;
}

int ddict_refills(ddict_t *d) {
    struct session *s = __atomic_load_n(&d->session, __ATOMIC_ACQUIRE);
    if (!s && handle_revive(d, &s, -1) < 0)
        return 0;
    return s->refill;
}

int ddict_working_set(ddict_t *d, unsigned *flags) {
    struct session *s = __atomic_load_n(&d->session, __ATOMIC_ACQUIRE);
    if (flags)
        *flags = 0;
    if (!s && handle_revive(d, &s, -1) < 0)
        return 0;
    if (flags)
        *flags = s->working_flags;
    return (int)s->working_set;
}

int ddict_down(const char *name, int timeout_ms) {
    char own[DICT_NAME_MAX];
    int rc = 0;
    struct ddict_start *made = up_take(name);
    if (made)
        return up_end(made, timeout_ms);
    name = name_choose(name, own, &rc);
    if (!name)
        return rc;
    struct deadline d;
    deadline_start(&d, timeout_ms);
    int fd = attach_connect_by(name, &d);
    if (fd == DDICT_ENODICT)
        not_yet_text(name);
    if (fd < 0)
        return fd;
    struct attach_msg m;
    attach_msg_init(&m, ATTACH_DOWN);
    snprintf(m.text, sizeof m.text, "%s", name);
    rc = attach_send(fd, &m, NULL, 0);
    if (rc == 0) {
        rc = attach_recv_by(fd, &m, NULL, 0, &d);
        if (rc == -ECONNRESET) /* ddictd ended before it sent its answer */
            rc = 0;
        else if (rc >= 0)
            rc = m.type == ATTACH_DOWN_OK
                     ? (m.status < 0 ? dd_error(m.status, "%s", m.text) : 0)
                     : dd_error(DDICT_EPROTO, "ddictd answered the order to end with message %u",
                                m.type);
    }
    close(fd);
    return rc;
}
