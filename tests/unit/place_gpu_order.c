/* SPDX-License-Identifier: Apache-2.0 */
/* place_gpu_order.c - the assignment against trying everything, on distances made up by chance. */
#include "gpu_test.h"

#include <errno.h>

static int64_t total(int ranks, int gpus, const int64_t *distance, const int *gpu_of, int modulo) {
    int64_t sum = 0;

    for (int r = 0; r < ranks; r++)
        sum += distance[r * gpus + gpu_of[r % modulo]];
    return sum;
}

START_TEST(the_total_distance_is_the_least_there_is) {
    static const int64_t range[] = {2, 5, 1000, (1 << 24) - 1}; /* few values make many ties */
    uint64_t seed = 1;
    int64_t distance[16 * 7];
    int order[7], own[16];

    for (int round = 0; round < 1500; round++) {
        int gpus = 1 + (int)(unit_random(&seed) % 6),
            ranks = 1 + (int)(unit_random(&seed) % (2 * (uint64_t)gpus + 2));

        for (int i = 0; i < ranks * gpus; i++)
            distance[i] = (int64_t)(unit_random(&seed) % (uint64_t)range[round % 4]);
        ck_assert_int_eq(gpu_order_closest(ranks, gpus, distance, order), 0);
        ck_assert_int_eq(total(ranks, gpus, distance, order, gpus),
                         least_of_orders(ranks, gpus, distance));
        ck_assert_int_eq(gpu_order_own(ranks, gpus, distance, own), 0);
        ck_assert_int_eq(total(ranks, gpus, distance, own, ranks),
                         least_of_shares(ranks, gpus, distance));
        unsigned all = 0;
        int count[7] = {0};
        for (int g = 0; g < gpus; g++)
            all |= 1u << order[g];
        ck_assert_uint_eq(all, (1u << gpus) - 1);
        for (int r = 0; r < ranks; r++)
            count[own[r]]++;
        for (int g = 0; g < gpus; g++)
            ck_assert(count[g] == ranks / gpus || count[g] == (ranks + gpus - 1) / gpus);
    }
}
END_TEST

START_TEST(where_nothing_is_known_the_order_stays) {
    int64_t distance[16 * 8];
    int order[8], own[16];

    for (int i = 0; i < 16 * 8; i++)
        distance[i] = 1234;
    for (int ranks = 1; ranks <= 16; ranks++) {
        ck_assert_int_eq(gpu_order_closest(ranks, 8, distance, order), 0);
        ck_assert_int_eq(gpu_order_own(ranks, 8, distance, own), 0);
        for (int g = 0; g < 8; g++)
            ck_assert_int_eq(order[g], g);
        for (int r = 0; r < ranks; r++)
            ck_assert_int_eq(own[r], r % 8);
    }
}
END_TEST

START_TEST(the_largest_node_is_done) {
    int64_t *distance = malloc(sizeof *distance * GPU_RANKS_MAX * GPU_MAX);
    int order[GPU_MAX], own[GPU_RANKS_MAX], count[GPU_MAX] = {0};
    uint64_t seed = 7;

    for (int i = 0; i < GPU_RANKS_MAX * GPU_MAX; i++)
        distance[i] = (int64_t)(unit_random(&seed) % (1 << 24));
    ck_assert_int_eq(gpu_order_closest(GPU_RANKS_MAX, GPU_MAX, distance, order), 0);
    ck_assert_int_eq(gpu_order_own(GPU_RANKS_MAX, GPU_MAX, distance, own), 0);
    for (int r = 0; r < GPU_RANKS_MAX; r++)
        count[own[r]]++;
    for (int g = 0; g < GPU_MAX; g++)
        ck_assert_int_eq(count[g], GPU_RANKS_MAX / GPU_MAX);
    ck_assert_int_le(total(GPU_RANKS_MAX, GPU_MAX, distance, own, GPU_RANKS_MAX),
                     total(GPU_RANKS_MAX, GPU_MAX, distance, order, GPU_MAX));
    ck_assert_int_eq(gpu_order_own(GPU_RANKS_MAX - 1, GPU_MAX, distance, own), 0);
    free(distance);
}
END_TEST

START_TEST(sizes_out_of_range_are_refused) {
    int64_t distance[1] = {0};
    int order[1];

    ck_assert_int_eq(gpu_order_closest(0, 1, distance, order), -EINVAL);
    ck_assert_int_eq(gpu_order_closest(1, 0, distance, order), -EINVAL);
    ck_assert_int_eq(gpu_order_closest(GPU_RANKS_MAX + 1, 1, distance, order), -EINVAL);
    ck_assert_int_eq(gpu_order_own(1, GPU_MAX + 1, distance, order), -EINVAL);
}
END_TEST

START_TEST(rotation_goes_around) {
    int order[4];

    gpu_order_rotate(4, 2, order);
    ck_assert(order[0] == 2 && order[1] == 3 && order[2] == 0 && order[3] == 1);
}
END_TEST

UNIT_MAIN("place_gpu_order", the_total_distance_is_the_least_there_is,
          where_nothing_is_known_the_order_stays, the_largest_node_is_done,
          sizes_out_of_range_are_refused, rotation_goes_around)
