# SPDX-License-Identifier: Apache-2.0
"""torchrun --rdzv-backend=ddict: the agents of an elastic run meet in the dictionary.

torchrun of torch 2 finds handler() by the package's entry point in the group torchrun.handlers. Where that reads no entry points, as in torch 1.13,
`python3 -m ddict.torch.elastic` is torchrun with this backend, and takes the same words.
"""

import functools
import os

from torch.distributed.elastic.rendezvous import RendezvousConnectionError
from torch.distributed.elastic.rendezvous.dynamic_rendezvous import RendezvousBackend, create_handler

from .. import DDict
from .._ddict import Error
from .store import Store, StoreError


class Backend(RendezvousBackend):
    """Backend(store) -- the state of a run as one key, which is changed in place of the version that was read, the token."""

    def __init__(self, store):
        self._store = store

    @property
    def name(self):
        return "ddict"

    def get_state(self):
        """(state, token), None: there is none yet"""
        try:
            version, state = self._store._look(self._key)
        except Error as e:
            raise RendezvousConnectionError(f"{self._store!r}: {e}") from e
        return (state, version) if version else None

    def set_state(self, state, token=None):
        """Put state in place of the one with this token: (state, token, True), or what is there and False"""
        try:
            version = self._store._d._put_if(self._key, token if isinstance(token, int) else 0, state)
        except Error as e:
            raise RendezvousConnectionError(f"{self._store!r}: {e}") from e
        if version:
            return state, version, True
        there = self.get_state()
        return None if there is None else (*there, False)

    @property
    def _key(self):
        return (*self._store._key("state"), "rendezvous")


def _run(run_id):
    """The name of a run: --rdzv-id; without one those meet that are of one Slurm step."""
    if run_id and run_id != "none":  # torchrun's default
        return run_id
    return ".".join(os.environ.get(word, "-") for word in ("SLURM_JOB_ID", "SLURM_STEP_ID"))


def create(params):
    """The handler of one agent. params: the endpoint is the name of the dictionary, none: the job's; read_timeout: seconds that the agents wait for a key, 60"""
    seconds = params.get_as_int("read_timeout", 60)
    if seconds <= 0:
        raise ValueError(f"read_timeout={seconds}: a number of seconds, more than 0")
    try:
        store = Store(f"torchrun {_run(params.run_id)}", seconds, DDict(params.endpoint) if params.endpoint else None)
    except (Error, StoreError) as e:
        raise RendezvousConnectionError(f"--rdzv-backend=ddict: {e}") from e
    made = create_handler(store, Backend(store), params)
    made.next_rendezvous = functools.partial(_next, made.next_rendezvous)
    return made


def _next(meet):
    """Meet, and give the workers, which inherit it, a word that only this round has: their agents stop those of the last round one after another."""
    met = meet()
    store = met[0] if isinstance(met, tuple) else met.store  # torch 1.13: (store, rank, size)
    os.environ["DDICT_TORCH_ROUND"] = store.compare_set("ddict.round", "", os.urandom(8).hex()).decode()
    return met


def handler():
    """The entry point: what makes a handler"""
    return create


if __name__ == "__main__":
    from torch.distributed.elastic.rendezvous import registry
    from torch.distributed.run import main
    try:
        registry.handler_registry.register("ddict", create)
    except ValueError:  # the entry point did
        pass
    main()
