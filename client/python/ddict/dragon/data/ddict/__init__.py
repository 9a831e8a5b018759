# SPDX-License-Identifier: Apache-2.0
"""Dragon's package dragon.data.ddict."""

from .ddict import *  # noqa: F401,F403 - all names of Dragon's
from .ddict import DDict, __all__  # noqa: F401
