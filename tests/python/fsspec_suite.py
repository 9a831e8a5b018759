# SPDX-License-Identifier: Apache-2.0
"""fsspec's own tests of a file system, for pytest; test_fsspec.py runs them against the dictionary that $DDICT_NAME names."""

import fsspec
import fsspec.tests.abstract as abstract
import pytest


class Fixtures(abstract.AbstractFixtures):
    @pytest.fixture
    def fs(self):
        return fsspec.filesystem("ddict")

    @pytest.fixture
    def fs_path(self):
        return "suite"

    @pytest.fixture
    def supports_empty_directories(self):
        return False


class TestCopy(Fixtures, abstract.AbstractCopyTests):
    pass


class TestGet(Fixtures, abstract.AbstractGetTests):
    pass


class TestOpen(Fixtures, abstract.AbstractOpenTests):
    pass


class TestPipe(Fixtures, abstract.AbstractPipeTests):
    pass


class TestPut(Fixtures, abstract.AbstractPutTests):
    pass
