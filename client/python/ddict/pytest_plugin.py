# SPDX-License-Identifier: Apache-2.0
"""A plugin of pytest: the fixture `ddict`, one dictionary for the session, which each test finds empty.

    def test_it(ddict):
        ddict["a"] = 1

    @pytest.mark.ddict(managers=4)      # a dictionary of its own for this test
    def test_that(ddict): ...

In pytest.ini: ddict_up = managers=2 mem=256M -- options of ddict.up(). $DDICT_NAME names the dictionary meanwhile, so that ddict.attach() finds it.
"""

import ddict as _ddict
import pytest


def pytest_addoption(parser):
    parser.addini("ddict_up", "options of ddict.up() for the fixture ddict, such as: managers=2 mem=256M", type="args", default=[])


def pytest_configure(config):
    config.addinivalue_line("markers", "ddict(**options): a dictionary of its own for this test, with these options of ddict.up()")


def _options(config):
    options = {}
    for word in config.getini("ddict_up"):
        key, is_there, value = word.partition("=")
        options[key.replace("-", "_")] = value if is_there else True
    return options


def _up(config, **more):
    try:
        return _ddict.up(**{**_options(config), **more})
    except TypeError as e:
        raise pytest.UsageError(f"ddict_up, or the marker ddict: {e}")


class _Session:
    """The dictionary of the session, made when a test first asks for it, and anew when a test has ended it"""

    def __init__(self, config):
        self.config, self.d = config, None

    def empty(self):
        if self.d is not None and self.d.attached:
            try:
                if self.d.is_frozen:
                    self.d.unfreeze()
                self.d.clear()
                return self.d
            except (_ddict.GoneError, _ddict.LostError):
                pass
        self.end()
        self.d = _up(self.config)
        return self.d

    def end(self):
        d, self.d = self.d, None
        if d is not None:
            try:
                d.__exit__(None, None, None)
            except _ddict.LostError:  # by a test, which has said so
                pass


@pytest.fixture(scope="session")
def _ddict_session(request):
    session = _Session(request.config)
    yield session
    session.end()


@pytest.fixture
def ddict(request):
    """A distributed dictionary, empty: a ddict.DDict"""
    marker = request.node.get_closest_marker("ddict")
    if marker is None:
        yield request.getfixturevalue("_ddict_session").empty()
        return
    with _up(request.config, **marker.kwargs) as d:
        yield d
