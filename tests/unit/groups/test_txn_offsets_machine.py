"""Commits, transactions, deletions, expiry, compaction and restarts in any order, against a model of the offsets.

The model is Kafka's rule in its simplest form: every record has an offset in the log, and the newest effective
record is the committed offset (35). The harness compares the live shard with a replay after every step (32).
"""

from collections.abc import Callable
from typing import NamedTuple

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from penstock.groups.commands import DeleteGroups, OffsetDelete, OffsetFetch
from tests.unit.groups.harness import Harness, Marker, Written

GROUPS = st.sampled_from(("g", "h"))
TOPICS = st.sampled_from(("orders", "bills"))
PRODUCERS = st.integers(1, 3)
RETENTION_MS = 120_000
GroupTopic = tuple[str, str]
"""Group and topic; there is one partition."""


class Known(NamedTuple):
    position: int
    offset: int
    time_ms: int


class OffsetMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.host = Harness(offsets_retention_ms=RETENTION_MS, offsets_retention_check_interval_ms=50_000)
        self.committed: dict[GroupTopic, Known] = {}
        self.staged: dict[tuple[int, GroupTopic], Known] = {}
        self.position = 0

    def next(self) -> Known:
        self.position += 1
        return Known(self.position, self.position, self.host.now)

    @rule(group_id=GROUPS)
    def commit(self, group_id: str) -> None:
        known = self.next()
        assert self.host.commit(known.offset, group_id) == 0
        self.committed[group_id, "orders"] = known

    @rule(producer_id=PRODUCERS, group_id=GROUPS, topic=TOPICS)
    def stage(self, producer_id: int, group_id: str, topic: str) -> None:
        known = self.next()
        assert self.host.stage(producer_id, known.offset, group_id, topic=topic) == 0
        self.staged[producer_id, (group_id, topic)] = known

    @rule(producer_id=PRODUCERS, is_commit=st.booleans(), times=st.integers(1, 2))
    def end(self, producer_id: int, is_commit: bool, times: int) -> None:
        for _ in range(times):
            self.host.end(producer_id, is_commit=is_commit)
        for owner, key in list(self.staged):
            if owner == producer_id:
                known = self.staged.pop((owner, key))
                if is_commit and known.position > self.committed.get(key, Known(-1, -1, -1)).position:
                    self.committed[key] = known

    @rule(group_id=GROUPS)
    def delete_group(self, group_id: str) -> None:
        if self.host.ask(DeleteGroups((group_id,))) == (0,):
            self.forget(lambda key: key[0] == group_id)

    @rule(group_id=GROUPS, topic=TOPICS)
    def delete_offset(self, group_id: str, topic: str) -> None:
        if self.host.ask(OffsetDelete(group_id=group_id, topics=((topic, (0,)),))).error == 0:
            self.forget(lambda key: key == (group_id, topic))

    def forget(self, is_deleted: Callable[[GroupTopic], bool]) -> None:
        self.committed = {key: known for key, known in self.committed.items() if not is_deleted(key)}
        self.staged = {key: known for key, known in self.staged.items() if not is_deleted(key[1])}

    @rule(delay_s=st.sampled_from((1, 20, 200)))
    def wait(self, delay_s: int) -> None:
        self.host.advance(delay_s * 1000)
        held = {key for _, key in self.staged}
        present = self.found()
        for key, known in list(self.committed.items()):
            if key not in present:
                assert key not in held
                assert self.host.now - known.time_ms >= RETENTION_MS
                del self.committed[key]

    @rule(is_compacted=st.booleans())
    def restart(self, is_compacted: bool) -> None:
        if is_compacted:
            self.compact()
        self.host.restart()

    def compact(self) -> None:
        """Compact like the cleaner, below the first open transaction: drop aborted and superseded records."""
        log = self.host.log
        outcomes: dict[int, bool] = {}
        counts = [True] * len(log)
        stable = len(log)
        for index in reversed(range(len(log))):
            entry = log[index]
            if isinstance(entry, Marker):
                outcomes[entry.producer_id] = entry.is_commit
            elif entry.producer_id is not None:
                if entry.producer_id in outcomes:
                    counts[index] = outcomes[entry.producer_id]
                else:
                    stable = index
        newest = {
            entry.key: index for index, entry in enumerate(log[:stable]) if isinstance(entry, Written) and counts[index]
        }
        self.host.log = [
            entry
            for index, entry in enumerate(log)
            if index >= stable or isinstance(entry, Marker) or (counts[index] and newest[entry.key] == index)
        ]

    def found(self) -> dict[GroupTopic, int]:
        return {
            (group_id, name): value.offset
            for group_id in ("g", "h")
            for name, partitions in self.host.ask(OffsetFetch(group_id=group_id)).topics
            for _, value in partitions
        }

    @invariant()
    def the_newest_effective_record_is_the_offset(self) -> None:
        assert self.found() == {key: known.offset for key, known in self.committed.items()}

    @invariant()
    def staged_offsets_are_unstable_and_keep_their_group(self) -> None:
        for group_id in ("g", "h"):
            held = {(topic, 0) for _, (owner, topic) in self.staged if owner == group_id}
            assert self.host.unstable(group_id) == held
            assert not held or group_id in self.host.shard.groups

    def teardown(self) -> None:
        for producer_id in (1, 2, 3):
            self.end(producer_id, is_commit=False, times=1)
        self.wait(200)
        self.wait(200)
        assert self.host.shard.groups == {}
        assert not self.host.shard.offsets.pending


TestOffsetMachine = OffsetMachine.TestCase
TestOffsetMachine.settings = settings(max_examples=40, stateful_step_count=40)


@pytest.mark.slow
class TestOffsetMachineForLong(TestOffsetMachine):  # type: ignore[misc, valid-type]
    settings = settings(max_examples=300, stateful_step_count=40)
