"""Checkpoints of the high watermarks of partitions with other replicas; that of a single replica is its log end.

A new leader begins with these values. They are gathered and encoded in slices, because there may be thousands. Calls
storage/store.py, which ignores values that are outdated by a truncation.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from penstock.model.errors import StorageError
from penstock.model.ids import TopicPartition
from penstock.model.job import Job, finish
from penstock.storage.store import LogStore

if TYPE_CHECKING:
    from penstock.replication.replicas import Replicas

logger = logging.getLogger(__name__)

PARTITIONS_PER_SLICE: Final = 200


class MarkCheckpoints:
    """Writes the high watermarks of one data folder."""

    def __init__(self, store: LogStore, replicas: Replicas) -> None:
        self._store = store
        self._replicas = replicas

    def checkpoint_later(self) -> None:
        """Write the high watermarks in slices."""
        if self._store.failure is None:
            self._store.checkpoint_high_watermarks_later(self._gather())

    def checkpoint(self) -> None:
        """Write the high watermarks before returning, when the node stops."""
        if self._store.failure is not None:
            return
        try:
            self._store.checkpoint_high_watermarks(finish(self._gather()))
        except StorageError as error:
            logger.warning("cannot write the high watermarks: %s", error)

    def _gather(self) -> Job[dict[TopicPartition, int]]:
        """Return the values to write: the dictionary of those that were written last if none has changed.

        This visits thousands of partitions every few seconds, and reads as little of each as it can.
        """
        written, directory = self._store.high_watermarks, self._store.directory
        changed: dict[TopicPartition, int] = {}
        found_count = 0
        for count, each in enumerate(list(self._replicas.all()), 1):
            log = each.log
            # The entry of a damaged log stays as it is.
            if len(each.replicas) > 1 and not (directory.has_damage and log.damage is not None):
                # Recovery treats a log that ends before its high watermark as damaged, and a follower may learn a high
                # watermark before the records below it are durable here.
                mark = min(each.marks.high_watermark, log.offsets.durable)
                before = written.get(log.topic_partition)
                if before is not None:
                    found_count += 1
                if before != mark:
                    changed[log.topic_partition] = mark
            if count % PARTITIONS_PER_SLICE == 0:
                yield None
        if found_count == len(written):
            return {**written, **changed} if changed else written
        # Logs that are not open yet keep the values that were read at startup.
        kept: dict[TopicPartition, int] = {}
        for count, (topic_partition, mark) in enumerate(list(written.items()), 1):
            if self._replicas.image.partition(topic_partition.topic, topic_partition.partition) is not None:
                kept[topic_partition] = mark
            if count % PARTITIONS_PER_SLICE == 0:
                yield None
        return {**kept, **changed}
