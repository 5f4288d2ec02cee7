"""Commands to the share coordinator and their replies, as plain values."""

from dataclasses import dataclass
from uuid import UUID

from penstock.model.errors import NO_ERROR
from penstock.shares.states import UNINITIALIZED, SharePartitionKey, StateRange


@dataclass(frozen=True, slots=True)
class InitializeState:
    key: SharePartitionKey
    state_epoch: int
    start_offset: int


@dataclass(frozen=True, slots=True)
class ReadState:
    """Read the state as the leader of an epoch, which fences the leaders of earlier epochs."""

    key: SharePartitionKey
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class WriteState:
    key: SharePartitionKey
    state_epoch: int
    leader_epoch: int
    start_offset: int
    ranges: tuple[StateRange, ...]
    complete_count: int = UNINITIALIZED


@dataclass(frozen=True, slots=True)
class DeleteState:
    key: SharePartitionKey


@dataclass(frozen=True, slots=True)
class ReadSummary:
    key: SharePartitionKey


@dataclass(frozen=True, slots=True)
class ForgetTopics:
    """Delete the state of deleted topics."""

    topic_ids: frozenset[UUID]


@dataclass(frozen=True, slots=True, kw_only=True)
class StateReply:
    """The reply to any command about one key; fields that the command does not ask for have their defaults."""

    error: int = NO_ERROR
    message: str | None = None
    state_epoch: int = 0
    leader_epoch: int = 0
    start_offset: int = UNINITIALIZED
    complete_count: int = UNINITIALIZED
    ranges: tuple[StateRange, ...] = ()


@dataclass(frozen=True, slots=True)
class Prune:
    """The action that deletes the records below an offset of the shard's log."""

    offset: int
