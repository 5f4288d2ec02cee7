"""Two replicas of one log that compact independently, compared with a dictionary."""

from collections.abc import Sequence
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock_sim.disk import SimDisk
from tests.support.compacting import stable_end
from tests.unit.storage.compaction.compacted_partition import PARTITION, CompactedPartition

Pairs = list[tuple[str, str | None]]
Step = tuple[str, int, Pairs]

KINDS = (
    "put", "put", "put packed", "put by producer", "transact", "transact", "commit", "abort", "compact", "compact",
    "compact", "crash", "restart", "rebuild", "wait", "lead anew", "forget producers",
)  # fmt: skip
pairs = st.lists(
    st.tuples(st.sampled_from("abcde"), st.one_of(st.none(), st.text("xyz", max_size=40))), min_size=1, max_size=4
)
steps = st.lists(st.tuples(st.sampled_from(KINDS), st.integers(0, 1), pairs), min_size=10, max_size=60)


class Model:
    """The written records with offset and transaction, and the outcome of each transaction."""

    def __init__(self) -> None:
        self.written: list[tuple[int, str, str | None, int | None]] = []
        self.outcomes: dict[int, bool] = {}

    def table(self, end: int) -> dict[str, str]:
        known: dict[str, str] = {}
        for offset, key, value, transaction in self.written:
            if offset < end and (transaction is None or self.outcomes.get(transaction, False)):
                known.pop(key, None)
                if value is not None:
                    known[key] = value
        return known


class Cluster:
    """A leader and a follower that compact independently."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.replicas = [CompactedPartition(SimDisk(f"{seed}:{index}"), segment_bytes=600) for index in range(2)]
        self.model = Model()
        self.sequences: dict[int, int] = {}
        self.generation = self.transactions = 0
        # The open transaction of each producer.
        self.open: dict[int, int] = {}

    @property
    def leader(self) -> CompactedPartition:
        return self.replicas[0]

    def high_watermark(self) -> int:
        return min(each.log.durable_offset for each in self.replicas)

    def run(self, step: Step) -> None:
        kind, which, written = step
        getattr(self, "_" + kind.replace(" ", "_"))(which, written)
        self._replicate()
        self.check()

    def check(self) -> None:
        mark = self.high_watermark()
        stable = min(stable_end(self.leader.store, PARTITION), mark)
        expected = self.model.table(stable)
        for replica in self.replicas:
            assert replica.log.damage is None
            assert replica.log.end_offset == self.leader.log.end_offset
            assert replica.table(stable) == expected
        clean = self.leader.log.compaction.clean_offset
        if all(each.log.compaction.clean_offset == clean for each in self.replicas):
            first, second = (each.table(clean) for each in self.replicas)
            assert first == second

    # Writing

    def _put(self, which: int, written: Pairs, *, codec: int = 0) -> None:
        self._note(self.leader.put(*written, codec=codec), written, None)

    def _put_packed(self, which: int, written: Pairs) -> None:
        self._put(which, written, codec=4 if which else 1)

    def _put_by_producer(self, which: int, written: Pairs) -> None:
        producer_id = 50 + which + 100 * self.generation
        sequence = self._take_sequence(producer_id, len(written))
        offset = self.leader.put(*written, producer_id=producer_id, producer_epoch=0, base_sequence=sequence)
        self._note(offset, written, None)

    def _transact(self, which: int, written: Pairs) -> None:
        producer_id = 90 + which + 100 * self.generation
        self.transactions += 1
        transaction = self.open.setdefault(producer_id, self.transactions)
        sequence = self._take_sequence(producer_id, len(written))
        offset = self.leader.put_in_transaction(producer_id, sequence, *written)
        self._note(offset, written, transaction)

    def _commit(self, which: int, written: Pairs, *, commit: bool = True) -> None:
        producer_id = 90 + which + 100 * self.generation
        if producer_id in self.open:
            self.leader.end_transaction(producer_id, commit=commit)
            self.model.outcomes[self.open.pop(producer_id)] = commit

    def _abort(self, which: int, written: Pairs) -> None:
        self._commit(which, written, commit=False)

    def _take_sequence(self, producer_id: int, count: int) -> int:
        known = self.leader.log.producer_state.producers.get(producer_id)
        expected = self.sequences.get(producer_id, 0)
        if known is not None and known.epoch >= 0 and known.batches:
            # The sequence of a known producer is neither lost nor invented.
            assert known.next_sequence == expected
        self.sequences[producer_id] = expected + count
        return expected

    def _note(self, offset: int, written: Pairs, transaction: int | None) -> None:
        for index, (key, value) in enumerate(written):
            self.model.written.append((offset + index, key, value, transaction))

    def _replicate(self) -> None:
        source = self.leader.log
        for follower in self.replicas[1:]:
            while follower.log.end_offset < source.end_offset:
                piece = source.read(follower.log.end_offset, max_bytes=500, end=source.end_offset)
                assert piece is not None
                records = bytearray(piece.file.read(piece.size, piece.position))
                follower.log.append_replicated(memoryview(records), now_ms=follower.clock.now_ms)
            follower.log.high_watermark_moved(self.high_watermark())

    # Everything else

    def _compact(self, which: int, written: Pairs) -> None:
        replica = self.replicas[which]
        mark = self.high_watermark()
        memory = 192 * self.random.choice((2, 5, 1000))
        replica.compact(
            passes=self.random.choice((1, 3)),
            roll=self.random.random() < 0.7,
            stable=lambda topic_partition: min(stable_end(replica.store, topic_partition), mark),
            log_cleaner_dedupe_buffer_size=memory,
            log_cleaner_io_buffer_load_factor=1.0,
        )

    def _crash(self, which: int, written: Pairs) -> None:
        replica = self.replicas[which]
        replica.disk.crash(self.random)
        replica.open()

    def _restart(self, which: int, written: Pairs) -> None:
        self.replicas[which].restart()

    def _rebuild(self, which: int, written: Pairs) -> None:
        """Replace the follower's disk: it copies what remains on the leader."""
        self.replicas[1] = CompactedPartition(SimDisk(self.random.random().hex()), segment_bytes=600)
        self.replicas[1].clock.now_ms = self.leader.clock.now_ms

    def _wait(self, which: int, written: Pairs) -> None:
        for replica in self.replicas:
            replica.clock.now_ms += 10_001 if which else 500
            replica.log.deletes.remove_due(replica.clock.now_ms)

    def _lead_anew(self, which: int, written: Pairs) -> None:
        self.leader.epoch += 1

    def _forget_producers(self, which: int, written: Pairs) -> None:
        """Expire idle clients, which return with another id."""
        if not self.open:
            for replica in self.replicas:
                replica.log.producer_state.expire(replica.clock.now_ms + 10, 1)
            self.generation += 1


def check_compaction(given_steps: Sequence[Step], seed: int) -> None:
    cluster = Cluster(seed)
    for step in given_steps:
        cluster.run(step)
    for which in range(2):
        cluster.run(("restart", which, []))
        cluster.run(("compact", which, []))
    cluster.check()


@settings(max_examples=40)
@given(steps, st.integers(0, 2**16))
def test_replicas_that_compact_independently_agree_with_a_dictionary(given_steps: Sequence[Step], seed: int) -> None:
    check_compaction(given_steps, seed)


@pytest.mark.slow
@settings(max_examples=300)
@given(steps, st.integers(0, 2**16))
def test_replicas_agree_after_many_kinds_of_compactions(given_steps: Sequence[Step], seed: int) -> None:
    check_compaction(given_steps, seed)
