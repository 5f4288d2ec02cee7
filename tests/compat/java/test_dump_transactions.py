"""Test that kafka-dump-log reads transaction files: markers, `.txnindex`, snapshots."""

from __future__ import annotations

import asyncio
from pathlib import Path
from uuid import UUID

import pytest

from penstock.config.settings import default_topic_settings
from penstock.model.ids import PartitionIndex, TopicId, TopicName, TopicPartition
from penstock.model.job import finish
from penstock.ports.real.disk import RealDisk
from penstock.storage.directory import LogDirectory
from penstock.storage.log import Log
from penstock.storage.marker_append import append_marker
from penstock.wire.records import Record, encode_batch
from tests.support.java_tools import JavaTools

pytestmark = pytest.mark.java

DUMP = "org.apache.kafka.tools.DumpLogSegments"
NOW_MS = 1_700_000_000_000


async def write(folder: Path) -> None:
    """Write twelve transactions of three producers, every other one aborted, and one that stays open."""
    opening = Log.opening(
        LogDirectory(RealDisk(), str(folder.parent)),
        str(folder),
        TopicPartition(TopicName("t"), PartitionIndex(0)),
        TopicId(UUID(int=1)),
        default_topic_settings(segment_bytes=3000, index_interval_bytes=300),
        clock_wall_ms=lambda: NOW_MS,
        clean=False,
    )
    log = finish(opening)
    for number in range(13):
        producer_id = number % 3 if number < 12 else 9
        sealed = encode_batch(
            [Record(timestamp=NOW_MS, key=b"k", value=b"v" * 200)] * 2,
            producer_id=producer_id,
            producer_epoch=number,
            base_sequence=0,
            is_transactional=True,
        )
        log.append(memoryview(bytearray(sealed)), leader_epoch=0, now_ms=NOW_MS, transaction_verified=True)
        if number < 12:
            append_marker(
                log,
                producer_id=producer_id,
                producer_epoch=number + 1,
                commit=number % 2 == 0,
                coordinator_epoch=4,
                leader_epoch=0,
                now_ms=NOW_MS,
                transaction_version=2,
            )
    log.close()


def test_markers_aborted_transactions_and_snapshots_are_read(tools: JavaTools, tmp_path: Path) -> None:
    folder = tmp_path / "t-0"
    asyncio.run(write(folder))
    segments = "".join(
        tools.check(DUMP, "--deep-iteration", "--files", str(path)) for path in sorted(folder.glob("*.log"))
    )
    assert "isvalid: false" not in segments
    assert segments.count("endTxnMarker: COMMIT coordinatorEpoch: 4") == 6
    assert segments.count("endTxnMarker: ABORT coordinatorEpoch: 4") == 6
    indexes = [tools.check(DUMP, "--files", str(path)) for path in sorted(folder.glob("*.txnindex"))]
    assert len(indexes) > 1
    assert sum(dumped.count("version: 0 producerId:") for dumped in indexes) == 6
    assert "version: 0 producerId: 1 firstOffset: 3 lastOffset: 5 lastStableOffset: 6" in indexes[0]
    newest = tools.check(DUMP, "--files", str(max(folder.glob("*.snapshot"))))
    assert "producerId: 9 producerEpoch: 12 coordinatorEpoch: -1 currentTxnFirstOffset: OptionalLong[36]" in newest
    assert "producerId: 2 producerEpoch: 12 coordinatorEpoch: 4 currentTxnFirstOffset: OptionalLong.empty" in newest
