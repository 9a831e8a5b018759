# SPDX-License-Identifier: Apache-2.0
"""Dragon's package dragon.infrastructure."""
