/* SPDX-License-Identifier: Apache-2.0 */
/* forward_route.c - by which connection of a peer a forward goes. */
#include "forward_route.h"

#include "forward_put.h"
#include "forward_table.h"
#include "manager.h"
#include "peer_client.h"

static bool type_writes(unsigned type) {
    return type == MSG_PUT || type == MSG_DEL || type == MSG_POP;
}

unsigned forward_route(struct manager *m, struct peer *p, const struct msg *req, uint64_t hash) {
    const struct forwards *t = m->forward_table;
    bool aside = req->type == MSG_PUT && req->flags & MSGF_STREAM;
    if ((!aside && t->writes_aside == 0) || req->key_len == 0)
        return 0;
    for (const struct forward *f = t->write[hash % FORWARD_BUCKETS]; f; f = f->same_next)
        if (f->hash == hash && f->peer == p)
            return f->via;
    return aside ? peer_via(p) : 0;
}

void forward_route_keep(struct manager *m, struct forward *f) {
    if (!type_writes(f->req.type))
        return;
    if (forwards_return(m))
        forward_puts_overtaken(f);
    bucket_add(m->forward_table->write, f);
    m->forward_table->writes_aside += f->via != 0;
}

void forward_route_end(struct manager *m, struct forward *f) {
    if (!type_writes(f->req.type) || !f->same_prev)
        return;
    m->forward_table->writes_aside -= f->via != 0;
    bucket_remove(f);
}
