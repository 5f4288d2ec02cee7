"""One partition of `__share_group_state`: the state of its share partitions.

Decides without changing the state; `apply` changes it, live or in replay. A snapshot is the whole state of a key, an
update a part that is merged into it. Every key remembers where its last snapshot is, so that the records before the
oldest one can be deleted: the topic is not compacted. docs/internals/share-groups.md has the rules.
Refuses, in the reply: InvalidRequest, FencedLeaderEpoch, FencedStateEpoch, UnknownTopicOrPartition.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from penstock.coordinator.decision import Expired, ShardDecision, SharedDecision, Ticket
from penstock.model.errors import FencedLeaderEpoch, InvalidRequest, Refusal, UnknownTopicOrPartition
from penstock.shares import records
from penstock.shares.combine import combine
from penstock.shares.commands import (
    DeleteState,
    ForgetTopics,
    InitializeState,
    Prune,
    ReadState,
    ReadSummary,
    StateReply,
    WriteState,
)
from penstock.shares.errors import FencedStateEpoch
from penstock.shares.records import ShareRecord, ShareSnapshot, ShareUpdate
from penstock.shares.states import UNINITIALIZED, SharePartitionKey

PRUNE_TIMER: Final = "prune"
IDLE_DISTANCE: Final = 1_000
"""A key whose snapshot is this many records behind gets a new one even if it has not changed since."""
SNAPSHOTS_PER_TURN: Final = 500
NO_EPOCH: Final = -1

READ_UNINITIALIZED: Final = "Read operation on uninitialized share partition not allowed."
WRITE_UNINITIALIZED: Final = "Write operation on uninitialized share partition not allowed."
NEGATIVE_PARTITION: Final = "The partition id cannot be a negative number."

Decision = ShardDecision[ShareRecord]


@dataclass(frozen=True, slots=True)
class ShareShardSettings:
    updates_per_snapshot: int = 500
    prune_interval_ms: int = 5 * 60_000
    idle_ms: int = 5 * 60_000
    """A key without a snapshot for this long gets one, so that it does not keep old records alive."""


@dataclass(slots=True)
class ShareState:
    """The state of one share partition."""

    value: ShareSnapshot
    update_count: int = 0
    """The number of updates since the last snapshot."""
    snapshot_at: int = 0
    """An offset at or before that of the last snapshot."""


class ShareShard:
    def __init__(
        self,
        settings: ShareShardSettings | None = None,
        *,
        has_partition: Callable[[UUID, int], bool] = lambda topic_id, partition: True,
    ) -> None:
        self.settings = settings or ShareShardSettings()
        """Replaced when the configuration changes."""
        self._has_partition = has_partition
        self.states: dict[SharePartitionKey, ShareState] = {}
        self.position = 0
        """An offset at or before that of the next record that is applied; set by the runtime."""
        self._deciders: dict[type, Callable[[Any, int], tuple[list[ShareRecord], StateReply]]] = {
            InitializeState: self._initialize,
            ReadState: self._read,
            WriteState: self._write,
            DeleteState: self._delete,
            ReadSummary: self._summarize,
        }

    # -- called by the runtime -------------------------------------------------------------

    def decide(self, command: Any, *, ticket: Ticket, now: int) -> Decision | SharedDecision[ShareRecord]:
        if type(command) is Expired:
            return self._prune(now)
        if type(command) is ForgetTopics:
            return self._forget(command, ticket)
        try:
            self._check_partition(command.key)
            written, reply = self._deciders[type(command)](command, now)
        except Refusal as refusal:
            return SharedDecision([], StateReply(error=refusal.code, message=refusal.message))
        if written and not isinstance(written[0].value, ShareUpdate):
            return ShardDecision(written, replies=[(ticket, reply)])
        # Updates only add to what is known, so several may be written together.
        return SharedDecision(written, reply)

    def adopt(self, drafts: dict[str, Any]) -> None:
        assert not drafts, "everything is in the records"

    def apply(self, record: ShareRecord) -> None:
        key, value = record
        if value is None:
            self.states.pop(key, None)
        elif isinstance(value, ShareSnapshot):
            self.states[key] = ShareState(value, snapshot_at=self.position)
        elif (state := self.states.get(key)) is not None:
            state.value = _merged(state.value, value)
            state.update_count += 1

    def loaded(self, now: int) -> Decision:
        return ShardDecision(timers={PRUNE_TIMER: self.settings.prune_interval_ms})

    def encode(self, record: ShareRecord) -> tuple[bytes, bytes | None]:
        return records.encode(record)

    def decode(self, key: bytes, value: bytes | None) -> ShareRecord | None:
        return records.decode(key, value)

    # -- deciding --------------------------------------------------------------------------

    def _check_partition(self, key: SharePartitionKey) -> None:
        if key.partition < 0:
            raise InvalidRequest(NEGATIVE_PARTITION)

    def _check_known(self, key: SharePartitionKey) -> None:
        if not self._has_partition(key.topic_id, key.partition):
            raise UnknownTopicOrPartition

    def _initialize(self, command: InitializeState, now: int) -> tuple[list[ShareRecord], StateReply]:
        state = self.states.get(command.key)
        if state is not None and NO_EPOCH != command.state_epoch < state.value.state_epoch:
            raise FencedStateEpoch
        self._check_known(command.key)
        value = None if state is None else state.value
        if value is not None and command.state_epoch == value.state_epoch:
            # A repeated request, whose response was lost: the group may have made progress since. Altering offsets
            # begins a new state epoch.
            return [], StateReply()
        snapshot = ShareSnapshot(
            snapshot_epoch=0 if value is None else value.snapshot_epoch + 1,
            state_epoch=command.state_epoch,
            leader_epoch=NO_EPOCH if value is None else value.leader_epoch,
            start_offset=command.start_offset,
            complete_count=UNINITIALIZED if command.start_offset == UNINITIALIZED else 0,
            create_timestamp=now,
            write_timestamp=now,
        )
        return [ShareRecord(command.key, snapshot)], StateReply()

    def _read(self, command: ReadState, now: int) -> tuple[list[ShareRecord], StateReply]:
        state = self.states.get(command.key)
        if state is None:
            raise InvalidRequest(READ_UNINITIALIZED)
        value = state.value
        if NO_EPOCH != command.leader_epoch < value.leader_epoch:
            raise FencedLeaderEpoch
        self._check_known(command.key)
        reply = StateReply(
            state_epoch=value.state_epoch,
            leader_epoch=max(value.leader_epoch, command.leader_epoch),
            start_offset=value.start_offset,
            complete_count=value.complete_count,
            ranges=value.ranges,
        )
        if command.leader_epoch in (NO_EPOCH, value.leader_epoch):
            return [], reply
        # From now on the leaders of earlier epochs cannot write.
        fenced = self._snapshot(state, now)._replace(leader_epoch=command.leader_epoch)
        return [ShareRecord(command.key, fenced)], reply

    def _write(self, command: WriteState, now: int) -> tuple[list[ShareRecord], StateReply]:
        state = self.states.get(command.key)
        if state is None:
            raise InvalidRequest(WRITE_UNINITIALIZED)
        if NO_EPOCH != command.leader_epoch < state.value.leader_epoch:
            raise FencedLeaderEpoch
        if NO_EPOCH != command.state_epoch < state.value.state_epoch:
            raise FencedStateEpoch
        self._check_known(command.key)
        update = ShareUpdate(
            snapshot_epoch=state.value.snapshot_epoch,
            leader_epoch=state.value.leader_epoch if command.leader_epoch == NO_EPOCH else command.leader_epoch,
            start_offset=command.start_offset,
            ranges=combine((), command.ranges, start_offset=command.start_offset),
            complete_count=command.complete_count,
        )
        if state.update_count < self.settings.updates_per_snapshot:
            return [ShareRecord(command.key, update)], StateReply()
        snapshot = self._snapshot(ShareState(_merged(state.value, update)), now)
        return [ShareRecord(command.key, snapshot)], StateReply()

    def _delete(self, command: DeleteState, now: int) -> tuple[list[ShareRecord], StateReply]:
        self._check_known(command.key)
        return [ShareRecord(command.key, None)] if command.key in self.states else [], StateReply()

    def _summarize(self, command: ReadSummary, now: int) -> tuple[list[ShareRecord], StateReply]:
        self._check_known(command.key)
        state = self.states.get(command.key)
        if state is None:
            return [], StateReply()
        value = state.value
        return [], StateReply(
            state_epoch=value.state_epoch,
            leader_epoch=value.leader_epoch,
            start_offset=value.start_offset,
            complete_count=value.complete_count,
        )

    def _forget(self, command: ForgetTopics, ticket: Ticket) -> Decision:
        gone = [ShareRecord(key, None) for key in self.states if key.topic_id in command.topic_ids]
        return ShardDecision(gone, replies=[(ticket, StateReply())], is_atomic=False)

    # -- snapshots and pruning -------------------------------------------------------------

    def _snapshot(self, state: ShareState, now: int) -> ShareSnapshot:
        value = state.value
        return value._replace(snapshot_epoch=value.snapshot_epoch + 1, create_timestamp=now, write_timestamp=now)

    def _prune(self, now: int) -> Decision:
        """Write snapshots of idle keys, and delete the records that no key needs."""
        idle = [
            ShareRecord(key, self._snapshot(state, now))
            for key, state in self.states.items()
            if now - state.value.write_timestamp >= self.settings.idle_ms
            and (state.update_count or self.position - state.snapshot_at > IDLE_DISTANCE)
        ][:SNAPSHOTS_PER_TURN]
        # The snapshots of this turn are not committed yet, so the records that they replace stay until the next one.
        oldest = min((state.snapshot_at for state in self.states.values()), default=self.position)
        return ShardDecision(
            idle,
            timers={PRUNE_TIMER: self.settings.prune_interval_ms},
            actions=[Prune(oldest)] if oldest > 0 else [],
            is_atomic=False,
        )


def _merged(value: ShareSnapshot, update: ShareUpdate) -> ShareSnapshot:
    # A write that was delayed must not move the start offset back.
    start = max(value.start_offset, update.start_offset)
    is_newer = update.start_offset >= value.start_offset
    return value._replace(
        leader_epoch=max(value.leader_epoch, update.leader_epoch),
        start_offset=start,
        ranges=combine(value.ranges, update.ranges, start_offset=start),
        complete_count=update.complete_count if is_newer else value.complete_count,
    )
