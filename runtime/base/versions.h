/* SPDX-License-Identifier: Apache-2.0 */
/*
 * versions.h - the versions that both sides must agree on. A client and the managers of its node
 * compare them at attach, nodes when they connect. A difference is refused with an error that names
 * the version.
 */
#ifndef DDICT_BASE_VERSIONS_H
#define DDICT_BASE_VERSIONS_H

#define PROTOCOL_VERSION 18u /* doc/PROTOCOL.md */
#define LAYOUT_VERSION   11u /* doc/LAYOUT.md */

#endif
