# SPDX-License-Identifier: Apache-2.0
from . import mp as mp
from .data.ddict import DDict as DDict, DDictError as DDictError, DDictKeyError as DDictKeyError, DDictFullError as DDictFullError
from .data.ddict import DDictTimeoutError as DDictTimeoutError, DDictSyncError as DDictSyncError, DDictCheckpointSyncError as DDictCheckpointSyncError
from .data.ddict import DDictFutureCheckpointError as DDictFutureCheckpointError, DDictPersistCheckpointError as DDictPersistCheckpointError
from .data.ddict import DDictUnableToCreateError as DDictUnableToCreateError, DDictManagerStats as DDictManagerStats
from .data.ddict import FilterContextManager as FilterContextManager, CheckpointPersister as CheckpointPersister
from .data.ddict import NULLCheckpointPersister as NULLCheckpointPersister, PosixCheckpointPersister as PosixCheckpointPersister
from .data.ddict import DAOSCheckpointPersister as DAOSCheckpointPersister
from .ai.collective_group import CollectiveGroup as CollectiveGroup, RankInfo as RankInfo
from .ai.torch import DragonDataset as DragonDataset
from .infrastructure.policy import Policy as Policy
from .native.barrier import Barrier as Barrier, BrokenBarrierError as BrokenBarrierError
from .native.event import Event as Event
from .native.lock import Lock as Lock
from .native.machine import Node as Node, System as System
from .native.process import Popen as Popen, Process as Process, ProcessTemplate as ProcessTemplate
from .native.process_group import ProcessGroup as ProcessGroup
from .native.queue import Queue as Queue
from .native.semaphore import Semaphore as Semaphore
