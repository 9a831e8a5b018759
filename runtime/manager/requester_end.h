/* SPDX-License-Identifier: Apache-2.0 */
/* requester_end.h - the end of a requester. */
#ifndef DDICT_MANAGER_REQUESTER_END_H
#define DDICT_MANAGER_REQUESTER_END_H

struct requester;
void requester_end(struct requester *a); /* undo all its open requests */

#endif
