"""Small logs on an in-memory disk."""

from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID

import pytest

from penstock.config.settings import TopicSettings, default_topic_settings
from penstock.model.errors import StorageError
from penstock.model.ids import PartitionIndex, TopicId, TopicName, TopicPartition
from penstock.model.job import finish
from penstock.storage.directory import LogDirectory
from penstock.storage.log import Appended, Log
from penstock.storage.marker_append import append_marker
from penstock.storage.recovered import LogExpectations
from penstock.storage.unreadable import LASTING_S
from penstock.wire.batch import BatchHeader, iter_batches
from penstock.wire.records import Record, encode_batch
from penstock_sim.disk import SimDisk
from tests.support.appending import append_at_once

NOW_MS = 1_700_000_000_000
FOLDER = "/data/orders-0"
PARTITION = TopicPartition(TopicName("orders"), PartitionIndex(0))
TOPIC_ID = TopicId(UUID(int=42))


def small_settings(**changes: Any) -> TopicSettings:
    """Return settings with a few batches per segment and an index entry for every other batch."""
    defaults: dict[str, Any] = {"segment_bytes": 2000, "index_interval_bytes": 200}
    return default_topic_settings(**{**defaults, **changes})


def open_log(
    disk: SimDisk,
    *,
    clean: bool = False,
    recovery_point: int = 0,
    log_start: int = 0,
    least_end: int = 0,
    held: bool = False,
    folder: str = FOLDER,
    directory: LogDirectory | None = None,
    clock: Callable[[], int] = lambda: NOW_MS,
    **changes: Any,
) -> Log:
    opening = Log.opening(
        directory or LogDirectory(disk, folder.rpartition("/")[0]),
        folder,
        PARTITION,
        TOPIC_ID,
        small_settings(**changes),
        clock_wall_ms=clock,
        clean=clean,
        known=LogExpectations(recovery_point=recovery_point, log_start=log_start, least_end=least_end, held=held),
    )
    return finish(opening)


def batch(
    count: int = 1, *, timestamp: int = NOW_MS, value: bytes = b"value", key: bytes | None = b"key", **header: Any
) -> bytes:
    """Return an encoded batch; `header` is passed to `encode_batch`."""
    records = [Record(timestamp=timestamp + index, key=key, value=value) for index in range(count)]
    return encode_batch(records, **header)


def idempotent(count: int = 1, *, sequence: int, producer_id: int = 7, epoch: int = 0, **header: Any) -> bytes:
    return batch(count, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, **header)


def append(log: Log, sealed: bytes, *, epoch: int = 0, now_ms: int = NOW_MS, **options: Any) -> Appended:
    return append_at_once(log, memoryview(bytearray(sealed)), leader_epoch=epoch, now_ms=now_ms, **options)


def fill(log: Log, counts: Sequence[int], *, value: bytes = b"v" * 60, **header: Any) -> list[int]:
    """Append batches of these record counts; return their base offsets."""
    return [append(log, batch(count, value=value, **header)).base_offset for count in counts]


def stored(log: Log, *, max_bytes: int = 700, below: int | None = None) -> list[BatchHeader]:
    """Read everything, or everything below an offset, as a consumer would."""
    found: list[BatchHeader] = []
    offset = log.start_offset
    end = log.end_offset if below is None else below
    while offset < end:
        piece = log.read(offset, max_bytes=max_bytes, end=end)
        assert piece is not None
        for view in iter_batches(piece.file.read(piece.size, piece.position)):
            found.append(BatchHeader.at(view))
            offset = found[-1].next_offset
    return found


def transactional(count: int = 1, *, sequence: int, producer_id: int = 7, epoch: int = 0, **header: Any) -> bytes:
    return idempotent(count, sequence=sequence, producer_id=producer_id, epoch=epoch, is_transactional=True, **header)


def end_transaction(
    log: Log, *, commit: bool, producer_id: int = 7, epoch: int = 0, coordinator_epoch: int = 0, version: int = 0
) -> Appended:
    return append_marker(
        log,
        producer_id=producer_id,
        producer_epoch=epoch,
        commit=commit,
        coordinator_epoch=coordinator_epoch,
        leader_epoch=0,
        now_ms=NOW_MS,
        transaction_version=version,
    )


def check_quarantined_when_it_keeps_failing(log: Log, attempt: Callable[[], object], *, offset: int) -> None:
    """Try what meets a read error again and again: the log is quarantined from the offset on when the error lasts."""
    now = 100.0
    log.directory.monotonic = lambda: now
    for seconds in (0.0, 1.0):
        now = 100.0 + seconds
        with pytest.raises(StorageError):
            attempt()
        assert log.damage is None, "the disk may recover"
    now = 100.0 + LASTING_S
    with pytest.raises(StorageError):
        attempt()
    assert log.damaged_from == offset
    assert log.directory.failure is None
