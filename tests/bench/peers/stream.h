/* SPDX-License-Identifier: Apache-2.0 */
/* stream.h - a blocking connection with a buffer each way, for the peers that are servers. */
#ifndef DDICT_BENCH_STREAM_H
#define DDICT_BENCH_STREAM_H

#include <stddef.h>

struct stream {
    int fd;
    size_t in_at, in_end, out_end, cap;
    char *in, *out;
};
/* to: a path, or HOST:PORT. */
int stream_open(struct stream *s, const char *to);
void stream_close(struct stream *s);
/* buffered; a full buffer is sent */
int stream_write(struct stream *s, const void *p, size_t n);
int stream_flush(struct stream *s);
/* up to \r\n, which is taken too; valid until the next call */
int stream_line(struct stream *s, char **line, size_t *len);
/* n bytes to into, or, where that is NULL, *p points at them in the buffer until the next call. */
int stream_read(struct stream *s, const void **p, void *into, size_t n);
int sent_all(int fd, const void *p, size_t n);
int received_all(int fd, void *p, size_t n);

#endif
