"""Saved log starts: they share writes, callbacks never run too early, and older values never replace newer ones."""

import errno
from collections.abc import Callable
from typing import Any

import pytest

from penstock.model.errors import StorageError
from penstock.model.ids import PartitionIndex, TopicName, TopicPartition
from penstock.model.job import Job, finish
from penstock.storage.checkpoint import LOG_STARTS, read_offsets
from penstock.storage.saved_offsets import SavedOffsets
from penstock_sim.disk import SimDisk

PATH = "/data/log-start-offset-checkpoint"


def topic_partition(index: int) -> TopicPartition:
    return TopicPartition(TopicName("t"), PartitionIndex(index))


class Logs:
    """Open logs, their starts, and a disk whose syncs end one at a time."""

    def __init__(self) -> None:
        self.disk = SimDisk(syncs_at_once=False)
        self.disk.make_folder("/data")
        self.disk.sync_folder("/")
        self.starts: dict[TopicPartition, int] = {}
        self.kept = SavedOffsets(self.disk, "/data", LOG_STARTS, lambda: self.starts)
        self.told: list[tuple[int, OSError | None]] = []

    def move(self, index: int, start: int) -> None:
        self.starts[topic_partition(index)] = start
        self.kept.moved()
        self.kept.when_saved(lambda error: self.told.append((index, error)))

    def finish_all(self) -> int:
        count = 0
        while self.disk.finish_sync():
            count += 1
        return count

    def after_power_loss(self) -> dict[TopicPartition, int]:
        self.disk.crash(kept=0.0)
        return read_offsets(self.disk, PATH)


def test_many_log_starts_share_two_writes() -> None:
    logs = Logs()
    for index in range(100):
        logs.move(index, index + 1)
    assert logs.told == []
    assert logs.finish_all() == 4
    assert logs.told == [(index, None) for index in range(100)]
    assert logs.after_power_loss() == {topic_partition(index): index + 1 for index in range(100)}


def test_callbacks_wait_until_the_file_name_is_durable() -> None:
    logs = Logs()
    logs.move(0, 5)
    while not logs.told:
        assert logs.disk.finish_sync()
    assert logs.after_power_loss() == {topic_partition(0): 5}


def test_a_wait_without_a_change_ends_immediately() -> None:
    logs = Logs()
    logs.move(0, 5)
    logs.finish_all()
    logs.kept.when_saved(lambda error: logs.told.append((7, error)))
    assert logs.told[-1] == (7, None)
    logs.kept.moved()
    assert logs.disk.syncs_under_way() == 0


def test_a_full_disk_is_reported_to_all_callbacks_and_the_next_call_tries_again() -> None:
    logs = Logs()
    logs.disk.failing["write"] = errno.ENOSPC
    logs.move(0, 5)
    assert [(index, error.errno if error else 0) for index, error in logs.told] == [(0, errno.ENOSPC)]
    logs.disk.failing.clear()
    logs.kept.when_saved(lambda error: logs.told.append((1, error)))
    logs.finish_all()
    assert logs.told[-1] == (1, None)
    assert logs.after_power_loss() == {topic_partition(0): 5}


@pytest.mark.parametrize("finished", [0, 1])
def test_a_write_in_progress_does_not_replace_a_later_one(finished: int) -> None:
    logs = Logs()
    logs.move(0, 5)
    logs.finish_all()
    logs.move(1, 7)
    for _ in range(finished):
        assert logs.disk.finish_sync()
    # The first log is deleted, and another one with its name is created.
    del logs.starts[topic_partition(0)]
    logs.kept.reset(topic_partition(0))
    assert read_offsets(logs.disk, PATH) == {topic_partition(1): 7}
    logs.finish_all()
    assert logs.told == [(0, None), (1, None)]
    assert logs.after_power_loss() == {topic_partition(1): 7}


def test_a_log_is_not_created_while_the_start_of_a_deleted_log_with_its_name_cannot_be_removed() -> None:
    logs = Logs()
    logs.move(0, 5)
    logs.finish_all()
    del logs.starts[topic_partition(0)]
    logs.disk.failing["write"] = errno.ENOSPC
    with pytest.raises(StorageError):
        logs.kept.reset(topic_partition(0))


def test_no_callback_runs_after_the_stop() -> None:
    logs = Logs()
    logs.move(0, 5)
    logs.kept.stop()
    logs.finish_all()
    assert logs.told == []


@pytest.mark.parametrize("finished", [0, 1, 2])
def test_a_write_in_progress_does_not_give_a_new_log_the_start_of_a_deleted_one(finished: int) -> None:
    logs = Logs()
    logs.starts[topic_partition(0)] = 5
    logs.kept.moved()
    for _ in range(finished):
        logs.disk.finish_sync()
    # The log is deleted, and another one with its name is created, while the start is being written.
    del logs.starts[topic_partition(0)]
    logs.kept.forget(topic_partition(0))
    logs.kept.reset(topic_partition(0))
    logs.starts[topic_partition(0)] = 0
    logs.finish_all()
    assert logs.kept.found(topic_partition(0)) == 0
    assert logs.after_power_loss() == {}


@pytest.mark.parametrize("finished", [0, 1, 2, 4])
def test_an_offset_that_a_log_is_truncated_to_is_never_exceeded(finished: int) -> None:
    logs = Logs()
    logs.move(0, 9)
    for _ in range(finished):
        logs.disk.finish_sync()
    logs.starts[topic_partition(0)] = 4
    logs.kept.lower(topic_partition(0), 4)
    logs.finish_all()
    assert logs.after_power_loss().get(topic_partition(0), 0) <= 4


def test_a_truncation_after_the_saved_offset_writes_nothing() -> None:
    logs = Logs()
    logs.move(0, 3)
    logs.finish_all()
    calls = logs.disk.calls
    logs.kept.lower(topic_partition(0), 4)
    logs.kept.lower(topic_partition(1), 0)
    assert logs.disk.calls == calls


def test_a_failed_sync_of_the_file_is_reported_and_the_next_write_contains_everything() -> None:
    logs = Logs()
    logs.move(0, 5)
    logs.disk.finish_sync(OSError(errno.EIO, "gone"))
    assert [(index, error is None) for index, error in logs.told] == [(0, False)]
    logs.move(1, 6)
    logs.finish_all()
    assert logs.told[-1] == (1, None)
    assert logs.after_power_loss() == {topic_partition(0): 5, topic_partition(1): 6}


def test_a_failed_rename_is_reported() -> None:
    logs = Logs()
    logs.disk.failing["rename"] = errno.EIO
    logs.move(0, 5)
    logs.finish_all()
    assert [(index, error is None) for index, error in logs.told] == [(0, False)]


def test_a_sync_that_ends_after_the_stop_reports_nothing() -> None:
    logs = Logs()
    logs.move(0, 5)
    logs.disk.finish_sync()
    logs.kept.stop()
    assert logs.finish_all() > 0
    assert logs.told == []


@pytest.mark.parametrize("finished", [0, 1, 2])
def test_a_lower_offset_counts_as_written_when_its_name_is_durable(finished: int) -> None:
    # Until then a power failure restores the old file, with the higher offset.
    logs = Logs()
    logs.move(0, 9)
    logs.finish_all()
    logs.move(0, 5)
    for _ in range(finished):
        logs.disk.finish_sync()
    logs.starts[topic_partition(0)] = 5
    logs.kept.lower(topic_partition(0), 7)
    assert logs.after_power_loss()[topic_partition(0)] <= 7


class SlicedLogs(Logs):
    """Logs whose offsets are encoded when `encode` is called."""

    def __init__(self) -> None:
        super().__init__()
        self.encodings: list[Callable[[], None]] = []
        self.kept = SavedOffsets(self.disk, "/data", LOG_STARTS, lambda: self.starts, run=self._run)

    def _run(self, job: Job[Any], done: Callable[[Any, BaseException | None], None]) -> None:
        self.encodings.append(lambda: done(finish(job), None))

    def encode(self) -> None:
        while self.encodings:
            self.encodings.pop(0)()


def test_offsets_that_move_while_others_are_encoded_are_written_next() -> None:
    logs = SlicedLogs()
    logs.move(0, 5)
    logs.move(1, 7)
    logs.encode()
    assert read_offsets(logs.disk, PATH) == {}
    logs.finish_all()
    assert read_offsets(logs.disk, PATH) == {topic_partition(0): 5}
    assert logs.told == []
    logs.encode()
    logs.finish_all()
    assert logs.told == [(0, None), (1, None)]
    assert logs.after_power_loss() == {topic_partition(0): 5, topic_partition(1): 7}


def test_an_offset_that_is_lowered_while_it_is_encoded_is_never_written() -> None:
    logs = SlicedLogs()
    logs.move(0, 9)
    logs.starts[topic_partition(0)] = 4
    logs.kept.lower(topic_partition(0), 4)
    logs.encode()
    logs.finish_all()
    assert logs.after_power_loss() == {topic_partition(0): 4}


def test_nothing_is_written_after_a_stop_while_offsets_are_encoded() -> None:
    logs = SlicedLogs()
    logs.move(0, 9)
    logs.kept.stop()
    calls = logs.disk.calls
    logs.encode()
    assert logs.disk.calls == calls and logs.told == []


def test_a_write_that_fails_after_offsets_were_encoded_is_reported() -> None:
    logs = SlicedLogs()
    logs.move(0, 9)
    logs.disk.failing["write"] = errno.ENOSPC
    logs.encode()
    assert [(index, error is None) for index, error in logs.told] == [(0, False)]
    logs.disk.failing.clear()
    logs.move(1, 3)
    logs.encode()
    logs.finish_all()
    assert logs.after_power_loss() == {topic_partition(0): 9, topic_partition(1): 3}
