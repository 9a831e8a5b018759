# SPDX-License-Identifier: Apache-2.0
EXTRA_DIST += tests/slurm/lib.sh tests/slurm/10-start.t tests/slurm/20-bytes.t \
  tests/slurm/30-sizes.t tests/slurm/40-loader.t tests/slurm/45-runtime.t \
  tests/slurm/46-runtime-end.t tests/slurm/50-options.t tests/slurm/57-examples.t \
  tests/slurm/s3_folder.py tests/slurm/58-save.t tests/slurm/59-persist.t tests/slurm/59-transport.t tests/slurm/59-wire.t \
  tests/slurm/60-environment.t tests/slurm/62-environment-job.t tests/slurm/70-placement.t \
  tests/slurm/bytes.py \
  tests/slurm/sizes.py tests/slurm/loader.py tests/slurm/runtime_table.py \
  tests/slurm/runtime_end.py tests/slurm/runtime_barrier.py tests/slurm/both.sh tests/slurm/hostile.sh tests/slurm/hostile.env \
  tests/slurm/hostile_lines.sh
EXTRA_DIST += tests/slurm/batch.sh tests/slurm/11-job-batch.t tests/slurm/12-job-salloc.t \
  tests/slurm/13-job-scope.t tests/slurm/14-slurm-settings.t \
  tests/slurm/15-slurm-sites.t tests/slurm/submit.c tests/slurm/16-het.t
EXTRA_DIST += tests/slurm/25-record.t tests/slurm/26-memory.t tests/slurm/lives.py \
  tests/slurm/record.py \
  tests/slurm/record.sh tests/slurm/90-jobs.t tests/slurm/92-nodes.t \
  tests/slurm/93-many-nodes.t tests/slurm/95-replicas.t tests/slurm/96-histories.t tests/slurm/97-refill.t tests/slurm/histories.py
EXTRA_DIST += tests/slurm/ends.sh tests/slurm/ends.py tests/slurm/terminal.py tests/slurm/clock.c \
  tests/slurm/80-end.t tests/slurm/81-end-job.t tests/slurm/82-end-killed.t \
  tests/slurm/83-end-node.t tests/slurm/84-end-missing.t tests/slurm/85-end-memory.t \
  tests/slurm/86-end-held.t \
  tests/slurm/87-end-node-down.t
EXTRA_DIST += tests/slurm/43-wireup.t tests/slurm/44-run-tasks.t
EXTRA_DIST += tests/slurm/containers.sh tests/slurm/image_build.sh tests/slurm/containers.py tests/slurm/devkit.py \
  tests/slurm/49-containers.t tests/slurm/ddp_data.py tests/slurm/55-ddp.t
EXTRA_DIST += tests/slurm/47-torch.t tests/slurm/48-gpu.t tests/slurm/torch_ranks.py \
  tests/slurm/gpu_table.py
EXTRA_DIST += tests/slurm/56-torch-data.t tests/slurm/torch_data.py
EXTRA_DIST += tests/slurm/59-results.t tests/slurm/results_ranks.py
EXTRA_DIST += tests/slurm/35-load.t
EXTRA_DIST += tests/slurm/59-dragon.t tests/slurm/dragon_words.py tests/slurm/dragon_pi.py \
  tests/slurm/dragon_top.py tests/slurm/dragon_one_node.py \
  tests/slurm/59-dragon-steps.t tests/slurm/dragon_steps.py tests/slurm/61-readme.t \
  tests/slurm/64-copy.t tests/slurm/63-up-program.t tests/slurm/up_program.py \
  tests/slurm/up_program.c
EXTRA_DIST += tests/slurm/27-spill.t
EXTRA_DIST += tests/slurm/28-memory-limits.t tests/slurm/29-memory-settings.t tests/slurm/limits.sh tests/slurm/limits.py
EXTRA_DIST += tests/slurm/41-freeze.t tests/slurm/freeze.py

# Long histories over Slurm, as root, on the cluster DEVCLUSTER_ID of contrib/devcluster, which has this build installed.
HISTORY_ROUNDS = nothing node ddictd srun slurmstepd
HISTORY_ROUND_SECONDS = 60
HISTORY_TIMES = 4
history-slurm:
	HISTORY_ROUND_SECONDS='$(HISTORY_ROUND_SECONDS)' \
	  HISTORY_ROUNDS="`for i in $$(seq $(HISTORY_TIMES)); do echo $(HISTORY_ROUNDS); done | paste -sd' '`" $(srcdir)/tests/slurm/96-histories.t
.PHONY: history-slurm
EXTRA_DIST += tests/slurm/59-dragon-programs.t
EXTRA_DIST += tests/slurm/47-torch-store.t tests/slurm/torch_meet.py
