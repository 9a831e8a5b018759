/* SPDX-License-Identifier: Apache-2.0 */
#include "value_file.h"

#include <base/io.h>

#include <common/key_text.h>
#include <common/npy.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The shortest text that strtod() reads back as x. */
static void float_show(char *text, size_t size, const double *x) {
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, size, "%.*g", digits, *x);
        double back = strtod(text, NULL);
        if (memcmp(&back, x, sizeof back) == 0)
            break;
    }
}

int value_file_write(int fd, const struct ddict_view *v, bool raw, bool terminal) {
    char text[40];
    const char *data = v->data;
    size_t len = v->len;
    struct bytes head = {0};
    if (!raw && v->tag == TAG_FLOAT && len == sizeof(double)) {
        double x;
        memcpy(&x, data, sizeof x);
        float_show(text, sizeof text, &x);
        data = text;
        len = strlen(text);
    }
    if (!raw && v->tag == TAG_BOOL && len == 1) {
        data = *data ? "True" : "False";
        len = strlen(data);
    }
    if (!raw && v->tag == TAG_ARRAY) {
        if (terminal && npy_show(&head, v->data, v->len) == 0)
            len = 0, head.len--;
        else if (!terminal && npy_head(&head, v->data, v->len, &len) == 0)
            data = (const char *)v->data + v->len - len;
        else
            head.len = 0;
    }
    int rc = write_all(fd, head.data, head.len);
    bytes_free(&head);
    if (rc == 0)
        rc = write_all(fd, data, len);
    if (rc == 0 && terminal && (len == 0 || data[len - 1] != '\n'))
        rc = write_all(fd, "\n", 1);
    return rc;
}
