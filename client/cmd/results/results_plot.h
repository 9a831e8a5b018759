/* SPDX-License-Identifier: Apache-2.0 */
/* results_plot.h - `ddict results plot`: metrics of runs as a picture. */
#ifndef DDICT_CMD_RESULTS_PLOT_H
#define DDICT_CMD_RESULTS_PLOT_H

#define RESULTS_METRICS 32
/* x, output: NULL for the default */
struct results_plot {
    const char *folder, *output, *x, *metric[RESULTS_METRICS];
    unsigned metrics;
};
int results_plot(const struct results_plot *p); /* the exit code */

#endif
