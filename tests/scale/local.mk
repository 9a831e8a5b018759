# SPDX-License-Identifier: Apache-2.0
# How the control of a dictionary grows with its nodes. 256 of them: contrib/check --full.
dist_check_SCRIPTS += tests/scale/curve.py
TESTS += tests/scale/curve.py
