# SPDX-License-Identifier: Apache-2.0
"""zarr's own tests of a store, for pytest; test_zarr.py runs them against the dictionary that $DDICT_NAME names."""

import os

import ddict
import ddict.zarr
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test
from zarr.core.buffer import cpu
from zarr.testing.stateful import ZarrHierarchyStateMachine, ZarrStoreStateMachine
from zarr.testing.store import StoreTests

EXAMPLES = int(os.environ.get("ZARR_EXAMPLES", 10))
PREFIX = "suite"


@pytest.fixture
def d():
    d = ddict.attach()
    d.clear()
    yield d
    d.detach()


class TestStore(StoreTests[ddict.zarr.Store, cpu.Buffer]):
    store_cls = ddict.zarr.Store
    buffer_cls = cpu.Buffer

    async def set(self, store, key, value):
        self.d[f"{PREFIX}/{key}"] = value.to_bytes()

    async def get(self, store, key):
        return self.buffer_cls.from_bytes(self.d[f"{PREFIX}/{key}"])

    @pytest.fixture
    def store_kwargs(self, d):
        self.d = d
        return {"prefix": PREFIX}

    def test_store_repr(self, store):
        assert repr(store) == f"ddict.zarr.Store('ddict:///{PREFIX}')"

    def test_store_supports_writes(self, store):
        assert store.supports_writes

    def test_store_supports_listing(self, store):
        assert store.supports_listing


class TestAtRoot(TestStore):
    """The same where the store is all of the dictionary"""

    async def set(self, store, key, value):
        self.d[key] = value.to_bytes()

    async def get(self, store, key):
        return self.buffer_cls.from_bytes(self.d[key])

    @pytest.fixture
    def store_kwargs(self, d):
        self.d = d
        return {}

    def test_store_repr(self, store):
        assert repr(store) == "ddict.zarr.Store('ddict:///')"


class TestFolder(TestStore):
    """The same of a folder that is loaded, and has nothing"""

    store_cls = ddict.zarr.FolderStore

    @pytest.fixture
    def store_kwargs(self, d, tmp_path):
        self.d, self.path = d, tmp_path
        ddict.zarr.FolderStore(tmp_path, PREFIX).wait_on_load()
        return {"path": tmp_path, "prefix": PREFIX}

    def test_store_repr(self, store):
        assert repr(store) == f"ddict.zarr.FolderStore('{self.path}', 'ddict:///{PREFIX}')"


def machine(kind, store):
    class Machine(kind):
        def __init__(self):
            super().__init__(store)

    run_state_machine_as_test(Machine, settings=settings(max_examples=EXAMPLES, deadline=None, database=None, suppress_health_check=list(HealthCheck)))


def test_any_order_of_calls(d):
    machine(ZarrStoreStateMachine, ddict.zarr.Store(prefix=PREFIX))


def test_any_hierarchy(d):
    machine(ZarrHierarchyStateMachine, ddict.zarr.Store(prefix=PREFIX))
