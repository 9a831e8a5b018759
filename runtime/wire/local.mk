# SPDX-License-Identifier: Apache-2.0
# libwireclient: what libddict needs (no libsodium). libwire: everything. Both want libbase at the final link.
noinst_LTLIBRARIES += libwireclient.la libwire.la
libwireclient_la_SOURCES = runtime/wire/msg.c runtime/wire/msg.h runtime/wire/lane.c runtime/wire/lane.h \
  runtime/wire/attach.c runtime/wire/attach.h runtime/wire/board.h
libwireclient_la_CPPFLAGS = $(AM_CPPFLAGS) $(XXHASH_CFLAGS)
libwire_la_SOURCES =
libwire_la_LIBADD = libwireclient.la
EXTRA_DIST += runtime/wire/PROTOCOL
