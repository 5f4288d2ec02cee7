"""The shard of the share coordinator: commands, fencing, snapshots, pruning, replay."""

from typing import Any
from uuid import UUID

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.coordinator.decision import Expired, ShardDecision, SharedDecision, Ticket
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
from penstock.shares.records import ShareRecord, ShareSnapshot, ShareUpdate
from penstock.shares.shard import PRUNE_TIMER, ShareShard, ShareShardSettings
from penstock.shares.states import SharePartitionKey, StateRange

TOPIC = UUID(int=1)
KEY = SharePartitionKey("g", TOPIC, 0)
OTHER = SharePartitionKey("g", TOPIC, 1)
FENCED_LEADER, FENCED_STATE, INVALID, UNKNOWN = 74, 124, 42, 3


class Harness:
    """Runs a shard as the runtime does, with a log in memory."""

    def __init__(self, updates_per_snapshot: int = 3) -> None:
        self.shard = ShareShard(
            ShareShardSettings(updates_per_snapshot), has_partition=lambda topic_id, index: index < 2
        )
        self.log: list[ShareRecord] = []
        self.start = 0
        self.actions: list[Any] = []

    def ask(self, command: Any, now: int = 0) -> StateReply:
        decided = self.shard.decide(command, ticket=Ticket(1), now=now)
        decision = decided.alone(Ticket(1)) if isinstance(decided, SharedDecision) else decided
        assert isinstance(decision, ShardDecision)
        self.shard.position = len(self.log)
        for record in decision.records:
            self.log.append(record)
            self.shard.apply(record)
        self.actions = decision.actions
        return decision.replies[0][1] if decision.replies else StateReply()

    def write(self, start: int, *ranges: StateRange, leader: int = 1, state: int = 1, complete: int = 0) -> int:
        return self.ask(WriteState(KEY, state, leader, start, ranges, complete)).error

    def replayed(self) -> ShareShard:
        shard = ShareShard(self.shard.settings)
        for offset, record in enumerate(self.log):
            if offset >= self.start:
                shard.position = offset
                decoded = shard.decode(*shard.encode(record))
                assert decoded == record
                shard.apply(record)
        return shard

    def values(self, shard: ShareShard | None = None) -> dict[SharePartitionKey, ShareSnapshot]:
        return {key: state.value for key, state in (shard or self.shard).states.items()}


def started(**options: int) -> Harness:
    harness = Harness(**options)
    assert harness.ask(InitializeState(KEY, 1, -1)).error == 0
    assert harness.ask(ReadState(KEY, 1)).error == 0
    return harness


def test_state_is_initialized_read_written_and_summarized() -> None:
    harness = started()
    assert harness.write(5, StateRange(5, 6, 2, 1), StateRange(7, 7, 0, 1), complete=2) == 0
    reply = harness.ask(ReadState(KEY, 1))
    assert (reply.start_offset, reply.ranges) == (5, (StateRange(5, 6, 2, 1), StateRange(7, 7, 0, 1)))
    summary = harness.ask(ReadSummary(KEY))
    assert (summary.start_offset, summary.complete_count, summary.state_epoch, summary.leader_epoch) == (5, 2, 1, 1)
    assert summary.ranges == ()


def test_state_that_was_not_initialized_cannot_be_used() -> None:
    harness = Harness()
    assert harness.ask(ReadState(KEY, 1)).error == INVALID
    assert harness.write(0) == INVALID
    assert harness.ask(DeleteState(KEY)).error == 0
    assert harness.ask(ReadSummary(KEY)).start_offset == -1
    assert harness.log == []


def test_partitions_must_exist() -> None:
    harness = Harness()
    missing, negative = KEY._replace(partition=9), KEY._replace(partition=-1)
    for command in (InitializeState(missing, 0, -1), DeleteState(missing), ReadSummary(missing)):
        assert harness.ask(command).error == UNKNOWN
    assert harness.ask(ReadSummary(negative)).error == INVALID


def test_a_read_fences_earlier_leaders() -> None:
    harness = started()
    assert harness.ask(ReadState(KEY, 3)).error == 0
    assert harness.write(1, leader=2) == FENCED_LEADER
    assert harness.ask(ReadState(KEY, 2)).error == FENCED_LEADER
    assert harness.write(1, leader=3) == 0
    assert harness.values()[KEY].start_offset == 1


def test_a_new_state_epoch_fences_writes_of_the_old_one() -> None:
    harness = started()
    harness.write(9, StateRange(9, 9, 2, 1))
    assert harness.ask(InitializeState(KEY, 2, 4)).error == 0
    assert harness.write(10, state=1) == FENCED_STATE
    assert harness.ask(InitializeState(KEY, 1, 4)).error == FENCED_STATE
    value = harness.values()[KEY]
    assert (value.start_offset, value.ranges, value.state_epoch) == (4, (), 2)
    assert harness.write(5, state=2) == 0


def test_initializing_again_does_not_reset_the_state() -> None:
    harness = started()
    harness.write(9)
    assert harness.ask(InitializeState(KEY, 1, -1)).error == 0
    assert harness.values()[KEY].start_offset == 9


def test_a_write_never_moves_the_start_offset_back() -> None:
    harness = started()
    harness.write(9, complete=1)
    harness.write(5, StateRange(7, 12, 2, 1), complete=7)
    value = harness.values()[KEY]
    assert (value.start_offset, value.ranges, value.complete_count) == (9, (StateRange(9, 12, 2, 1),), 1)


def test_updates_end_in_a_snapshot() -> None:
    harness = started(updates_per_snapshot=2)
    kinds = []
    for offset in range(5):
        harness.write(offset, StateRange(offset, offset, 0, 1))
        kinds.append(type(harness.log[-1].value))
    assert kinds == [ShareUpdate, ShareUpdate, ShareSnapshot, ShareUpdate, ShareUpdate]
    assert harness.values(harness.replayed()) == harness.values()


def test_updates_may_share_a_batch_and_snapshots_may_not() -> None:
    harness = started(updates_per_snapshot=1)
    write = WriteState(KEY, 1, 1, 0, ())
    assert isinstance(harness.shard.decide(write, ticket=Ticket(1), now=0), SharedDecision)
    harness.ask(write)
    assert isinstance(harness.shard.decide(write, ticket=Ticket(1), now=0), ShardDecision)


def test_records_below_the_oldest_snapshot_are_pruned() -> None:
    harness = started(updates_per_snapshot=1)
    harness.ask(InitializeState(OTHER, 1, -1))
    for offset in range(6):
        harness.write(offset)
    harness.ask(Expired(PRUNE_TIMER))
    assert harness.actions == [Prune(2)], "the snapshot of the other key"
    harness.ask(DeleteState(OTHER))
    harness.ask(Expired(PRUNE_TIMER))
    (prune,) = harness.actions
    assert prune.offset == harness.shard.states[KEY].snapshot_at > 2, "a deleted key holds nothing back"
    harness.start = prune.offset
    assert harness.values(harness.replayed()) == harness.values()


def test_without_any_state_everything_is_pruned() -> None:
    harness = started()
    harness.ask(DeleteState(KEY))
    harness.ask(Expired(PRUNE_TIMER))
    assert harness.actions == [Prune(2)], "up to the records of the last decision, whose offsets are lower bounds"


def test_idle_keys_get_a_snapshot() -> None:
    harness = started()
    harness.write(3)
    harness.ask(Expired(PRUNE_TIMER), now=299_999)
    assert type(harness.log[-1].value) is ShareUpdate
    harness.ask(Expired(PRUNE_TIMER), now=300_000)
    assert type(harness.log[-1].value).__name__ == "ShareSnapshot"
    count = len(harness.log)
    harness.ask(Expired(PRUNE_TIMER), now=900_000)
    assert len(harness.log) == count, "nothing has changed since"


def test_the_state_of_deleted_topics_is_forgotten() -> None:
    harness = started()
    kept = SharePartitionKey("g", UUID(int=2), 0)
    harness.ask(InitializeState(kept, 1, -1))
    harness.ask(ForgetTopics(frozenset({TOPIC})))
    assert list(harness.shard.states) == [kept]
    assert harness.values(harness.replayed()) == harness.values()


commands = st.one_of(
    st.builds(InitializeState, st.sampled_from([KEY, OTHER]), st.integers(0, 3), st.integers(-1, 20)),
    st.builds(ReadState, st.sampled_from([KEY, OTHER]), st.integers(-1, 4)),
    st.builds(
        WriteState,
        st.sampled_from([KEY, OTHER]),
        st.integers(-1, 3),
        st.integers(-1, 4),
        st.integers(0, 20),
        st.lists(
            st.builds(lambda first, size, state, count: StateRange(first, first + size, state, count),
                      st.integers(0, 20), st.integers(0, 3), st.sampled_from([0, 2, 4]), st.integers(0, 3)),
            max_size=3,
        ).map(tuple),
        st.integers(0, 9),
    ),
    st.builds(DeleteState, st.sampled_from([KEY, OTHER])),
    st.just(Expired(PRUNE_TIMER)),
)  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(st.lists(commands, max_size=30))
def test_a_pruned_log_replays_to_the_same_state(given_commands: list[Any]) -> None:
    harness = Harness()
    leaders: dict[SharePartitionKey, int] = {}
    for number, command in enumerate(given_commands):
        before = harness.values()
        reply = harness.ask(command, now=number * 100_000)
        for action in harness.actions:
            assert action.offset >= harness.start, "the log start never moves back"
            harness.start = action.offset
        assert harness.values(harness.replayed()) == harness.values()
        if isinstance(command, ReadState) and not reply.error:
            leaders[command.key] = max(leaders.get(command.key, -1), command.leader_epoch)
        if isinstance(command, WriteState) and not reply.error:
            assert command.leader_epoch == -1 or command.leader_epoch >= leaders.get(command.key, -1)
            assert harness.values()[command.key].start_offset >= before[command.key].start_offset
        if isinstance(command, DeleteState):
            leaders.pop(command.key, None)
