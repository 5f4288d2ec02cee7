from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.model.errors import StorageError
from penstock.model.ids import PartitionIndex, TopicName, TopicPartition
from penstock.model.job import Job
from penstock.replication.mark_checkpoints import MarkCheckpoints


def at(index: int) -> TopicPartition:
    return TopicPartition(TopicName("orders"), PartitionIndex(index))


def partition(index: int, *, mark: int, durable: int, replicas: int = 2, damage: str | None = None) -> SimpleNamespace:
    log = SimpleNamespace(topic_partition=at(index), offsets=SimpleNamespace(durable=durable), damage=damage)
    return SimpleNamespace(log=log, marks=SimpleNamespace(high_watermark=mark), replicas=tuple(range(replicas)))


class Store:
    """What a checkpoint calls of a data folder."""

    def __init__(self, marks: dict[TopicPartition, int]) -> None:
        self.failure: OSError | None = None
        self.high_watermarks = marks
        self.directory = SimpleNamespace(has_damage=True)
        self.written: dict[TopicPartition, int] | None = None
        self.steps = 0
        self.on_write: Callable[[], None] = lambda: None

    def checkpoint_high_watermarks(self, marks: dict[TopicPartition, int]) -> None:
        self.on_write()
        self.written = marks

    def checkpoint_high_watermarks_later(self, gather: Job[dict[TopicPartition, int]]) -> None:
        while True:
            try:
                next(gather)
            except StopIteration as end:
                self.written = end.value
                return
            self.steps += 1


def checkpoints(store: Store, partitions: list[SimpleNamespace], *, in_image: int) -> MarkCheckpoints:
    image = SimpleNamespace(partition=lambda topic, index: object() if index < in_image else None)
    replicas: Any = SimpleNamespace(image=image, all=lambda: iter(partitions))
    folder: Any = store
    return MarkCheckpoints(folder, replicas)


def test_durable_high_watermarks_of_partitions_with_other_replicas_are_written() -> None:
    store = Store({at(2): 20, at(3): 30, at(9): 90})
    partitions = [
        partition(0, mark=5, durable=4),
        partition(1, mark=6, durable=6, replicas=1),
        partition(2, mark=22, durable=25),
        partition(3, mark=33, durable=33, damage="gone"),
    ]
    checkpoints(store, partitions, in_image=9).checkpoint_later()
    assert store.written == {at(0): 4, at(2): 22, at(3): 30}


def test_many_high_watermarks_are_gathered_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.replication.mark_checkpoints.PARTITIONS_PER_SLICE", 10)
    store = Store({at(index): 1 for index in range(100)})
    partitions = [partition(index, mark=2, durable=2) for index in range(50)]
    checkpoints(store, partitions, in_image=90).checkpoint_later()
    assert store.written == {at(index): 2 if index < 50 else 1 for index in range(90)}
    assert store.steps == 5 + 10


def test_unchanged_high_watermarks_are_not_copied() -> None:
    store = Store({at(index): 2 for index in range(3)})
    partitions = [partition(index, mark=2, durable=3) for index in range(3)]
    saved = checkpoints(store, partitions, in_image=3)
    saved.checkpoint_later()
    assert store.written is store.high_watermarks
    partitions[1].marks.high_watermark = 3
    saved.checkpoint_later()
    assert store.written == {at(0): 2, at(1): 3, at(2): 2}
    assert store.high_watermarks[at(1)] == 2


def test_a_stop_writes_immediately_and_logs_an_error(caplog: pytest.LogCaptureFixture) -> None:
    store = Store({})
    saved = checkpoints(store, [partition(0, mark=5, durable=5)], in_image=1)
    saved.checkpoint()
    assert store.written == {at(0): 5}

    def refuse() -> None:
        raise StorageError("full")

    store.on_write = refuse
    saved.checkpoint()
    assert "cannot write the high watermarks: full" in caplog.text


def test_nothing_is_written_to_a_failed_folder() -> None:
    store = Store({})
    store.failure = OSError("gone")
    saved = checkpoints(store, [partition(0, mark=5, durable=5)], in_image=1)
    saved.checkpoint()
    saved.checkpoint_later()
    assert store.written is None
