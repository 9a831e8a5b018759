# SPDX-License-Identifier: Apache-2.0
"""Dragon's package dragon.ai.torch."""

from .dictdataset import DragonDataset  # noqa: F401
