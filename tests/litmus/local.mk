# SPDX-License-Identifier: Apache-2.0
dist_check_SCRIPTS += tests/litmus/models.t
EXTRA_DIST += tests/litmus/weak.inc tests/litmus/lease.pml tests/litmus/adopt.pml \
  tests/litmus/scan.pml tests/litmus/split.pml tests/litmus/grow.pml tests/litmus/freeze.pml \
  tests/litmus/lane.pml tests/litmus/replica.pml tests/litmus/coordinator.pml \
  tests/litmus/fence.pml tests/litmus/copy.pml tests/litmus/voters.pml
TESTS += tests/litmus/models.t
