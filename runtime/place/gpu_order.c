/* SPDX-License-Identifier: Apache-2.0 */
/* gpu_order.c - assign GPUs to ranks. */
#include "gpu_order.h"

#include "gpu.h"

#include <errno.h>
#include <stdlib.h>

/* Total distances differ by at least 1, squares of moved places together by less than 2^22 (512
 * ranks, 63 places). */
#define DISTANCE_SCALE (1ll << 22)
/* more than 512 distances of 2^24 scaled: an answer without it is always there */
#define FORBIDDEN (1ll << 56)

/*
 * The Hungarian method with potentials (shortest augmenting paths), rows x columns, rows <=
 * columns: column[r] of each row with the least sum. Arrays of the method count from 1; 0 is the
 * row being placed.
 */
struct hungarian {
    int64_t *row_price, *column_price, *slack;
    int *row_of, *from;
    char *done;
};

static void place_row(const struct hungarian *h, int row, int columns, const int64_t *cost) {
    int at = 0;

    h->row_of[0] = row;
    for (int c = 0; c <= columns; c++) {
        h->slack[c] = INT64_MAX;
        h->done[c] = 0;
    }
    do {
        int r = h->row_of[at], next = 0;
        int64_t least = INT64_MAX;

        h->done[at] = 1;
        for (int c = 1; c <= columns; c++) {
            if (h->done[c])
                continue;
            int64_t v =
                cost[(int64_t)(r - 1) * columns + c - 1] - h->row_price[r] - h->column_price[c];
            if (v < h->slack[c]) {
                h->slack[c] = v;
                h->from[c] = at;
            }
            if (h->slack[c] < least) {
                least = h->slack[c];
                next = c;
            }
        }
        for (int c = 0; c <= columns; c++) {
            if (h->done[c]) {
                h->row_price[h->row_of[c]] += least;
                h->column_price[c] -= least;
            } else {
                h->slack[c] -= least;
            }
        }
        at = next;
    } while (h->row_of[at] != 0);
    while (at != 0) {
        h->row_of[at] = h->row_of[h->from[at]];
        at = h->from[at];
    }
}

static int costs_assign(int rows, int columns, const int64_t *cost, int *column) {
    size_t n = (size_t)columns + 1;
    struct hungarian h = {.row_price = calloc((size_t)rows + 1, sizeof *h.row_price),
                          .column_price = calloc(n, sizeof *h.column_price),
                          .slack = calloc(n, sizeof *h.slack),
                          .row_of = calloc(n, sizeof *h.row_of),
                          .from = calloc(n, sizeof *h.from),
                          .done = calloc(n, 1)};
    int rc = -ENOMEM;

    if (h.row_price && h.column_price && h.slack && h.row_of && h.from && h.done) {
        for (int r = 1; r <= rows; r++)
            place_row(&h, r, columns, cost);
        for (int c = 1; c <= columns; c++)
            if (h.row_of[c] != 0)
                column[h.row_of[c] - 1] = c - 1;
        rc = 0;
    }
    free(h.row_price);
    free(h.column_price);
    free(h.slack);
    free(h.row_of);
    free(h.from);
    free(h.done);
    return rc;
}

static int64_t move_cost(int from, int to) {
    return (int64_t)(from - to) * (from - to);
}

static int ranks_refused(int ranks, int gpus) {
    return ranks < 1 || ranks > GPU_RANKS_MAX || gpus < 1 || gpus > GPU_MAX;
}

int gpu_order_closest(int ranks, int gpus, const int64_t *distance, int *order) {
    int rows = ranks < gpus ? ranks : gpus, rc, n = rows;
    char used[GPU_MAX] = {0};
    int64_t *cost;

    if (ranks_refused(ranks, gpus))
        return -EINVAL;
    cost = calloc((size_t)rows * (size_t)gpus, sizeof *cost);
    if (!cost)
        return -ENOMEM;
    for (int r = 0; r < ranks; r++)
        for (int g = 0; g < gpus; g++)
            cost[r % gpus * gpus + g] +=
                distance[r * gpus + g] * DISTANCE_SCALE + move_cost(r % gpus, g);
    rc = costs_assign(rows, gpus, cost, order);
    free(cost);
    if (rc < 0)
        return rc;
    for (int i = 0; i < rows; i++)
        used[order[i]] = 1;
    for (int g = 0; g < gpus; g++)
        if (!used[g])
            order[n++] = g;
    return 0;
}

/*
 * A column is a seat at a GPU: `each` that must be taken and, where ranks do not divide evenly, one
 * that may be. Rows that are no ranks take the spare seats, and only those.
 */
int gpu_order_own(int ranks, int gpus, const int64_t *distance, int *own) {
    int each = ranks / gpus, extra = ranks % gpus != 0, seats, rc;
    int64_t *cost;
    int *seat;

    if (ranks_refused(ranks, gpus))
        return -EINVAL;
    seats = gpus * (each + extra);
    cost = malloc(sizeof *cost * (size_t)seats * (size_t)seats);
    seat = malloc(sizeof *seat * (size_t)seats);
    if (!cost || !seat) {
        free(cost);
        free(seat);
        return -ENOMEM;
    }
    for (int r = 0; r < seats; r++)
        for (int s = 0; s < seats; s++) {
            int g = s % gpus;

            if (r < ranks)
                cost[(int64_t)r * seats + s] =
                    distance[r * gpus + g] * DISTANCE_SCALE + move_cost(r % gpus, g);
            else
                cost[(int64_t)r * seats + s] = s / gpus < each ? FORBIDDEN : 0;
        }
    rc = costs_assign(seats, seats, cost, seat);
    for (int r = 0; rc == 0 && r < ranks; r++)
        own[r] = seat[r] % gpus;
    free(cost);
    free(seat);
    return rc;
}

void gpu_order_rotate(int gpus, int own, int *order) {
    for (int i = 0; i < gpus; i++)
        order[i] = (own + i) % gpus;
}
