/* SPDX-License-Identifier: Apache-2.0 */
/*
 * clients_inside.h - shared by the files of clients.h: clients.c, who there is; client_attach.c, how
 * a client gets its arenas and lanes. clients.c owns each struct sup_client, and frees it with all
 * its descriptors in client_drop(), which many calls do when a socket fails: the caller must not use
 * a client afterwards. One thread.
 */
#ifndef DDICT_SUPERVISOR_CLIENTS_INSIDE_H
#define DDICT_SUPERVISOR_CLIENTS_INSIDE_H

#include "supervisor.h"

enum client_state {
    CLIENT_NEW,
    CLIENT_PARKED,
    CLIENT_RENDEZVOUS,
    CLIENT_SOCKET_FILE,
    CLIENT_WATCHING,
    CLIENT_TASK,
    CLIENT_ADDING,
    CLIENT_WELCOMED,
    CLIENT_ATTACHED,
    CLIENT_BANNED
};
struct sup_client {
    struct supervisor *s;
    struct sup_client *next;
    enum client_state state;
    /* it only asks when the dictionary is ready; where its step meets */
    bool looks, wants_rendezvous;
    bool helper;         /* our save child: the dictionary does not wait for its end */
    bool joins, watches; /* it is one of --tasks; it asks how the dictionary ends */
    uint32_t task;
    struct io_handler sock, life; /* life: its pidfd; fd -1 when its pid is not visible here */
    uint64_t id;
    pid_t pid;
    char step[STEP_NAME_MAX];
    /* lane_fd, lane_eventfd: [local_n]; a lane_eventfd is open until both its ends
     * have it, or with --restarts until the client is gone */
    int lease_fd, client_eventfd, *lane_fd, *lane_eventfd;
    bool *added;        /* [local_n]: this manager has answered; in the memory of lane_fd */
    unsigned waits;     /* answers of managers */
    int status;         /* the first bad one */
    unsigned sent;      /* of WELCOME and the MANAGER messages */
    struct timer timer; /* until ATTACHED: how long it may take */
    struct socket_file *socket_file; /* of CLIENT_SOCKET_FILE */
};

/* --- clients.c --- */
void client_state_set(struct sup_client *c, enum client_state next); /* nobody else changes it */
void client_drop(struct sup_client *c);
/* The last message to a client, which is dropped: a refusal, or where its step meets. */
void client_refuse(struct sup_client *c, int status, const char *text);
void client_timer_start(struct sup_client *c); /* it is dropped if it takes too long to attach */
struct sup_client *client_find(struct supervisor *s,
                               uint64_t id); /* NULL: gone, or no client yet */

/* --- client_attach.c; each may drop the client --- */
void client_welcome(
    struct sup_client *c); /* PARKED, and the dictionary is ready: what it asked for */
void client_continue(struct sup_client *c); /* WELCOMED, and its socket is writable */

#endif
