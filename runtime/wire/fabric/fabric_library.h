/* SPDX-License-Identifier: Apache-2.0 */
/* fabric_library.h - libfabric.so.1, opened at the first call and never closed, and the endpoints
 * that it offers. */
#ifndef DDICT_WIRE_FABRIC_FABRIC_LIBRARY_H
#define DDICT_WIRE_FABRIC_FABRIC_LIBRARY_H

#include <rdma/fabric.h>
#include <stddef.h>

/* Usable endpoints of provider `name`, or of all if that is NULL, in libfabric's order. As
 * fabric_info(). */
int fabric_providers(const char *name, struct fi_info **info);
/* Usable endpoints of the provider, those with an address of the node first. 0 and a list for
 * fabric_info_free(), or negative with a sentence. */
int fabric_info(const char *name, const char *node, struct fi_info **info);
void fabric_info_free(struct fi_info *info);
/*
 * Bytes of the longest message that its sender sends whole. rxm (tcp;ofi_rxm and the like) has the
 * receiver of a longer one read it out of the sender's memory, later and in parts.
 */
size_t fabric_message_max(const struct fi_info *info);
int fabric_start(struct fi_fabric_attr *attr, struct fid_fabric **fabric);
const char *fabric_strerror(int e);

#endif
