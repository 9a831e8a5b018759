# SPDX-License-Identifier: Apache-2.0
"""Dragon's package dragon.globalservices: here Slurm knows the nodes."""
