# SPDX-License-Identifier: Apache-2.0
client_save_sources = client/save/copy.c client/save/copy.h \
  client/save/dump.h client/save/dump_format.h client/save/dump_in.c \
  client/save/dump_in.h client/save/dump_out.c client/save/dump_out.h client/save/files.c \
  client/save/files.h client/save/manifest.c client/save/manifest.h client/save/once.c client/save/once.h \
  client/save/persist.c client/save/persist.h client/save/progress.c \
  client/save/progress.h client/save/restore.c client/save/restore.h client/save/save.c \
  client/save/save.h client/save/seen.c client/save/seen.h client/save/stage.c client/save/stage.h
