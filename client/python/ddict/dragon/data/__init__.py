# SPDX-License-Identifier: Apache-2.0
"""Dragon's package dragon.data."""


def __getattr__(name):
    if name != "DDict":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from .ddict import DDict
    return DDict
