"""Random histories of a data directory in which names and sectors reach the disk in any order.

A life creates, writes, rolls, truncates, compacts, deletes and recreates topics, and ends a few times: at any disk
call, by a power loss or a kill, or cleanly. Each start must find every partition of every live topic with all
acknowledged records, with no record of another topic, and without damage. There is one life per seed; `python -m
tests.crash.folder_lives --lives 20000` runs a campaign and prints the failing seeds.
"""

import argparse
import logging
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any, Final
from uuid import UUID

from penstock.config.settings import TopicSettings, default_topic_settings
from penstock.model.errors import StorageError
from penstock.model.ids import PartitionIndex, TopicName, TopicPartition
from penstock.storage.compaction.cleaner import Cleaner
from penstock.storage.log import Log
from penstock.storage.store import LogStore
from penstock.wire.batch import BatchHeader
from penstock.wire.records import Record, decode_batch, encode_batch
from penstock_sim.disk import Crashed, SimDisk
from tests.crash.workload import read_all
from tests.support.appending import append_at_once
from tests.support.compacting import HandClock, cleaner_for

FOLDER: Final = "/data"
NOW_MS: Final = 1_700_000_000_000
NAMES: Final = ("orders", "clicks", "table")
PARTITIONS_MAX: Final = 2
STEPS_MAX: Final = 40
STARTS_MAX: Final = 5
KEYS: Final = 4


class UnexpectedState(Exception):
    """A start has found something that contradicts the acknowledgements."""


class SeededEntropy:
    def __init__(self, random: Random) -> None:
        self._random = random

    def uuid(self) -> UUID:
        return UUID(int=self._random.getrandbits(128))

    def stream(self, name: str) -> Random:
        return Random(name)


@dataclass
class Partition:
    """The client's knowledge of one partition."""

    sent: dict[int, list[bytes]] = field(default_factory=dict)
    """Every batch that may be at an offset."""
    acknowledged: dict[int, bytes] = field(default_factory=dict)
    """Batches that must survive a power loss."""
    written: dict[int, bytes] = field(default_factory=dict)
    """Batches that must survive a kill too; the next start must find them."""
    start_least: int = 0
    start_most: int = 0
    cuts: int = 0


@dataclass
class Topic:
    """A live topic. Deleted ones are not tracked."""

    id: UUID
    settings: TopicSettings
    partitions: list[Partition]


class Life:
    """One life, completely determined by its seed."""

    def __init__(self, seed: int, *, journal_size: int, group_least: int) -> None:
        self.random = Random(f"{seed}:life")
        self.disk = SimDisk(seed, syncs_at_once=False)
        self.clock = HandClock(NOW_MS)
        self.entropy = SeededEntropy(self.random)
        self.journal_size, self.group_least = journal_size, group_least
        self.topics: dict[str, Topic] = {}
        self.store: LogStore | None = None
        self.cleaner: Cleaner | None = None
        self.epoch = 1
        self.story: list[str] = []
        """The events, for the analysis of a failing life."""

    def run(self) -> None:
        for start in range(self.random.randint(2, STARTS_MAX)):
            self._note(f"start {start}")
            if self.random.random() < 0.85:
                # Most calls belong to the steps; a start takes some tens.
                self.disk.fail_at[self.disk.calls + self.random.randint(1, self.random.choice((60, 400, 3000)))] = None
            try:
                self._start()
                for _ in range(self.random.randint(1, STEPS_MAX)):
                    self._step()
                if self.random.random() < 0.5:
                    self._stop()
            except Crashed as where:
                self._note(f"stopped: {where}")
            self._end()
            self._change_while_down()
        # The last start is undisturbed.
        self._start()
        for topic in self.topics.values():
            for index, known in enumerate(topic.partitions):
                self._append(self._log(topic, index), known)

    def _note(self, text: str) -> None:
        self.story.append(text)

    # Starts and ends

    def _start(self) -> None:
        self.store = LogStore.load(
            self.disk,
            FOLDER,
            cluster_id="lives",
            node_id=1,
            clock=self.clock,
            entropy=self.entropy,
            journal_size=self.journal_size,
            journal_group_least=self.group_least,
        )
        self.cleaner = cleaner_for(self.store, self.disk, self.clock)
        self.epoch += 1
        for name, topic in self.topics.items():
            for index, known in enumerate(topic.partitions):
                log = self._open(name, topic, index)
                self._check(f"{name}-{index} of {topic.id}", log, known, topic.settings)
        self.store.note_boot()

    def _stop(self) -> None:
        """Stop cleanly. Operations in progress complete first, as on a real disk."""
        assert self.store is not None
        self._note("clean stop")
        while self.disk.finish_sync():
            pass
        self.store.close()
        self.store = None
        for topic in self.topics.values():
            for known in topic.partitions:
                known.acknowledged = dict(known.written)

    def _end(self) -> None:
        """Lose the power, or only the process."""
        is_kill = self.random.random() < 0.25
        self._note("kill" if is_kill else "power loss")
        self.store = None
        if is_kill:
            self.disk.end_process()
            return
        self.disk.crash(self.random)
        for topic in self.topics.values():
            for known in topic.partitions:
                known.written = dict(known.acknowledged)

    def _change_while_down(self) -> None:
        """Delete topics, and create others of the same name, while this node is down."""
        for name in list(self.topics):
            if self.random.random() < 0.15:
                self._note(f"{name} is deleted while the node is down")
                del self.topics[name]
                if self.random.random() < 0.7:
                    self.topics[name] = self._new_topic(name)
                    self._note(f"{name} is recreated as {self.topics[name].id}")

    # Steps

    def _step(self) -> None:
        kinds: Sequence[tuple[int, Callable[[], None]]] = (
            (8, self._make_or_delete),
            (60, self._write_somewhere),
            (30, self._finish_syncs),
            (5, self._roll),
            (5, self._delete_records),
            (5, self._retain),
            (4, self._truncate),
            (4, self._checkpoint),
            (4, self._compact),
            (3, self._sweep),
        )
        weights, steps = [weight for weight, _ in kinds], [step for _, step in kinds]
        self.random.choices(steps, weights)[0]()

    def _make_or_delete(self) -> None:
        assert self.store is not None
        name = self.random.choice(NAMES)
        topic = self.topics.get(name)
        if topic is None:
            topic = self.topics[name] = self._new_topic(name)
            self._note(f"create {name} as {topic.id}, {topic.settings.flush_mode}, {len(topic.partitions)} partitions")
            for index in range(len(topic.partitions)):
                self._open(name, topic, index)
            return
        self._note(f"delete {name}")
        del self.topics[name]
        topic_partitions = [_topic_partition(name, index) for index in range(len(topic.partitions))]
        self.store.prepare_delete(topic_partitions, topic.id)
        for topic_partition in topic_partitions:
            self.store.delete(topic_partition, topic.id)

    def _new_topic(self, name: str) -> Topic:
        changes: dict[str, Any] = {"flush_mode": self.random.choice(("fsync", "fsync", "fsync", "os"))}
        if name == "table":
            changes |= {"cleanup_policy": frozenset({"compact"}), "min_cleanable_dirty_ratio": 0.0}
        settings = default_topic_settings(
            segment_bytes=self.random.choice((1100, 1500, 4000)),
            index_interval_bytes=300,
            retention_ms=-1,
            retention_bytes=self.random.choice((-1, 1500)),
            file_delete_delay_ms=self.random.choice((0, 1000)),
            **changes,
        )
        count = self.random.randint(1, PARTITIONS_MAX)
        return Topic(self.entropy.uuid(), settings, [Partition() for _ in range(count)])

    def _some_log(self) -> tuple[Log, Partition, Topic] | None:
        choices = [(topic, index) for topic in self.topics.values() for index in range(len(topic.partitions))]
        if not choices:
            return None
        topic, index = self.random.choice(choices)
        return self._log(topic, index), topic.partitions[index], topic

    def _write_somewhere(self) -> None:
        found = self._some_log()
        if found is not None:
            for _ in range(self.random.randint(1, 3)):
                self._append(found[0], found[1])

    def _append(self, log: Log, known: Partition) -> None:
        records = [
            Record(
                timestamp=self.clock.now_ms,
                key=b"k%d" % self.random.randrange(KEYS),
                value=self.random.randbytes(self.random.randrange(5, 300)),
            )
            for _ in range(self.random.randint(1, 3))
        ]
        offset = log.end_offset
        sealed = encode_batch(records, base_offset=offset, leader_epoch=self.epoch)
        known.sent.setdefault(offset, []).append(sealed)
        sent = memoryview(bytearray(8) + sealed[8:])
        appended = append_at_once(log, sent, leader_epoch=self.epoch, now_ms=self.clock.now_ms)
        assert appended.base_offset == offset
        known.written[offset] = sealed
        self._note_durable(known, log)

    def _note_durable(self, known: Partition, log: Log) -> None:
        """Check after a power loss with `flush.mode=os`, which guarantees only what was synced for other reasons."""
        if log.flusher.syncs_appends:
            for offset, sealed in known.written.items():
                if offset + BatchHeader.at(sealed).last_offset_delta < log.durable_offset:
                    known.acknowledged[offset] = sealed

    def _finish_syncs(self) -> None:
        for _ in range(self.random.choice((1, 1, 2, 5, 30))):
            self.disk.finish_sync()
        for known, log in self._open_partitions():
            self._note_durable(known, log)

    def _roll(self) -> None:
        found = self._some_log()
        if found is not None:
            self._note(f"roll {found[0].topic_partition}")
            found[0].roll()

    def _delete_records(self) -> None:
        found = self._some_log()
        if found is None:
            return
        log, known, _ = found
        offset = self.random.randint(log.start_offset, max(log.durable_offset, log.start_offset))
        self._note(f"delete records of {log.topic_partition} before {offset}")
        known.start_most = max(known.start_most, offset)
        log.advance_start(offset)
        log.checkpoints.when_start_saved(partial(self._start_saved, known, offset, known.cuts))

    def _start_saved(self, known: Partition, offset: int, cuts: int, error: OSError | None) -> None:
        # A log that was truncated meanwhile may begin before that.
        if error is None and cuts == known.cuts:
            known.start_least = max(known.start_least, offset)

    def _retain(self) -> None:
        found = self._some_log()
        if found is None:
            return
        log, known, _ = found
        known.start_most = max(known.start_most, log.durable_offset)
        gone = log.delete_old_segments(high_watermark=log.durable_offset, now_ms=self.clock.now_ms)
        known.start_most = max(known.start_least, log.start_offset)
        self._note(f"retention takes {gone} segments of {log.topic_partition}, which begins at {log.start_offset}")

    def _truncate(self) -> None:
        """Truncate, as a follower does whose log diverges from its leader's."""
        found = self._some_log()
        if found is None:
            return
        log, known, topic = found
        if topic.settings.compact:
            return
        restarts = self.random.random() < 0.2
        offset = self.random.randint(log.start_offset, log.end_offset)
        if restarts:
            offset += self.random.randrange(20)
        self._note(f"cut {log.topic_partition} at {offset}{', all of it' if restarts else ''}")
        kept = {
            at: sealed
            for at, sealed in known.written.items()
            if not restarts and at + BatchHeader.at(sealed).last_offset_delta < offset
        }
        # The batch that contains the offset is removed, too.
        end = min([offset, *(at for at in known.written if at not in kept)]) if not restarts else offset
        known.written = kept
        known.acknowledged = {at: sealed for at, sealed in known.acknowledged.items() if at in kept}
        known.cuts += 1
        known.start_most = max(known.start_most, offset)
        # An acknowledged log start may be after the new end.
        known.start_least = min(known.start_least, end)
        if restarts:
            log.truncate_fully_and_start_at(offset)
        else:
            log.truncate_to(offset)

    def _checkpoint(self) -> None:
        assert self.store is not None
        self._note("checkpoint")
        self.store.checkpoint_recovery_points()
        self.store.checkpoint_high_watermarks(
            {topic_partition: log.durable_offset for topic_partition, log in self.store.logs.items()}
        )
        self.store.log_starts.moved()

    def _compact(self) -> None:
        assert self.store is not None
        if "table" in self.topics:
            self._note("compact")
            assert self.cleaner is not None
            self.cleaner.find_work()

    def _sweep(self) -> None:
        assert self.store is not None
        self.clock.now_ms += self.random.choice((1, 1001))
        self.store.remove_deleted_folders(self.clock.now_ms)
        for log in self.store:
            log.deletes.remove_due(self.clock.now_ms)

    # Logs

    def _open(self, name: str, topic: Topic, index: int) -> Log:
        assert self.store is not None
        return self.store.open(_topic_partition(name, index), topic.id, topic.settings)

    def _log(self, topic: Topic, index: int) -> Log:
        assert self.store is not None
        (name,) = (name for name, each in self.topics.items() if each is topic)
        return self.store.logs[_topic_partition(name, index)]

    def _open_partitions(self) -> list[tuple[Partition, Log]]:
        assert self.store is not None
        return [
            (topic.partitions[index], self.store.logs[_topic_partition(name, index)])
            for name, topic in self.topics.items()
            for index in range(len(topic.partitions))
            if _topic_partition(name, index) in self.store.logs
        ]

    def _check(self, name: str, log: Log, known: Partition, settings: TopicSettings) -> None:
        """Compare a log with the client's knowledge, and update the latter."""
        if log.damage is not None:
            raise UnexpectedState(f"{name} is damaged: {log.damage}")
        if not log.flusher.syncs_appends:
            # Not even the names of its first segments are guaranteed after a power loss.
            known.start_least = known.start_least if log.end_offset else 0
            known.start_most = max([known.start_most, *(_end(each[-1]) for each in known.sent.values())])
        if not known.start_least <= log.start_offset:
            raise UnexpectedState(
                f"{name} begins at {log.start_offset}, but must begin at or after {known.start_least}"
            )
        if log.start_offset > known.start_most:
            raise UnexpectedState(
                f"{name} begins at {log.start_offset}, but nothing was deleted after {known.start_most}"
            )
        try:
            found = read_all(log)
        except (AssertionError, StorageError) as problem:
            raise UnexpectedState(f"{name} cannot be read: {problem!r}") from problem
        if settings.compact:
            _check_compacted(name, log, found, known)
        else:
            _check_batches(name, log, found, known)
        known.sent = {offset: [sealed] for offset, sealed in found.items()}
        known.written = dict(found)
        known.acknowledged = dict(found) if log.flusher.syncs_appends else {}
        known.start_least = known.start_most = log.start_offset


def _topic_partition(name: str, index: int) -> TopicPartition:
    return TopicPartition(TopicName(name), PartitionIndex(index))


def _end(sealed: bytes) -> int:
    return BatchHeader.at(sealed).next_offset


def _check_batches(name: str, log: Log, found: dict[int, bytes], known: Partition) -> None:
    for offset, sealed in known.written.items():
        if offset + BatchHeader.at(sealed).last_offset_delta >= log.start_offset and found.get(offset) != sealed:
            raise UnexpectedState(
                f"{name}: the acknowledged batch at {offset} is missing; the log ends at {log.end_offset}"
            )
    for offset, sealed in found.items():
        if sealed not in known.sent.get(offset, ()):
            raise UnexpectedState(f"{name}: the batch at {offset} was never sent")


def _check_compacted(name: str, log: Log, found: dict[int, bytes], known: Partition) -> None:
    """Check that compaction never drops the last record of a key, and moves no record to another offset."""
    batches = [sealed for sent_once in known.sent.values() for sealed in sent_once]
    sent = {_identity(record) for sealed in batches for record in decode_batch(sealed)}
    records = [record for sealed in found.values() for record in decode_batch(sealed)]
    for record in records:
        if _identity(record) not in sent:
            raise UnexpectedState(f"{name}: the record at {record.offset} was never sent")
    newest: dict[bytes, int] = {}
    for record in records:
        newest[record.key or b""] = max(record.offset, newest.get(record.key or b"", -1))
    for sealed in known.written.values():
        for record in decode_batch(sealed):
            if record.offset >= log.start_offset and newest.get(record.key or b"", -1) < record.offset:
                raise UnexpectedState(
                    f"{name}: the acknowledged record at {record.offset} is missing, and so is a newer one of its key"
                )
    last = max((at + BatchHeader.at(each).last_offset_delta for at, each in known.written.items()), default=-1)
    if log.end_offset <= last:
        raise UnexpectedState(f"{name} ends at {log.end_offset}, but {last} was acknowledged")


def _identity(record: Record) -> tuple[int, bytes | None, bytes | None]:
    return record.offset, record.key, record.value


@dataclass(frozen=True, slots=True)
class FailingLife:
    seed: int
    what: str
    story: list[str]


def live(seed: int) -> FailingLife | None:
    """Run one life; in half of them the journal is so small that its files alternate every few batches."""
    life = Life(seed, journal_size=4000 if seed % 2 else 0, group_least=0)
    try:
        life.run()
    except UnexpectedState as odd:
        return FailingLife(seed, str(odd), life.story)
    except Exception as error:
        return FailingLife(seed, f"{type(error).__name__}: {error}", life.story)
    return None


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.crash.folder_lives", description=__doc__)
    parser.add_argument("--lives", type=int, default=2000)
    parser.add_argument("--first", type=int, default=1, help="the first seed")
    parser.add_argument("--verbose", action="store_true", help="print the events of each failing life")
    options = parser.parse_args()
    logging.disable()
    began = time.monotonic()
    odd = 0
    for seed in range(options.first, options.first + options.lives):
        found = live(seed)
        if found is not None:
            odd += 1
            print(f"seed {seed}: {found.what}", flush=True)
            if options.verbose:
                print("".join(f"    {line}\n" for line in found.story), flush=True)
    print(f"{options.lives} lives, {odd} failing, {time.monotonic() - began:.0f} s")
    return 1 if odd else 0


if __name__ == "__main__":
    sys.exit(main())
