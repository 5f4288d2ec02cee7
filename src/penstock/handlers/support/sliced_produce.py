"""Produce requests that would block the event loop for long: appended batch by batch, with other work in between.

Records that must be parsed (storage/validate.py) may take seconds, and a frame may contain a hundred megabytes
of batches. The request is parked, and the connection is not read until all of its batches are appended, so that no
batch overtakes another and only the client that sent it waits. Goes to scheduling/ and back to produce.py for each
batch.
"""

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from penstock.handlers.support.reply import Parked, ParkedWrite, Parts
from penstock.handlers.support.transaction_verification import CloseConnection, Verdicts
from penstock.model.errors import NO_ERROR
from penstock.model.job import Job
from penstock.ports.network import KeptFrame
from penstock.scheduling.scheduler import ClientGone, Scheduler
from penstock.storage import validate
from penstock.wire.batch import HEADER_SIZE
from penstock.wire.frame import Header
from penstock.wire.hot.produce import PartitionResult, ProduceRequest, TopicResults, read_request

if TYPE_CHECKING:
    from penstock.handlers.produce import ParkedProduce, ProduceHandler

log = logging.getLogger(__name__)

SLICE_SIZE: Final = 1024 * 1024
"""How many bytes are appended before other work may run."""
BATCH_COST: Final = 8 * 1024
"""The cost of a batch in addition to its bytes, in bytes: a partition without records takes some time too."""
UNFINISHED_COUNT_MAX: Final = 128
"""With more jobs than this, those of clients that have disconnected are abandoned, whatever their acks."""


class Writing:
    """A produce request of which some batches are appended."""

    __slots__ = ("acks", "failed", "header", "listener", "parked", "topics", "verdicts")

    def __init__(
        self,
        header: Header,
        listener: str,
        acks: int,
        verdicts: Verdicts | None,
        topics: list[TopicResults],
        parked: "ParkedProduce | None",
        failed: bool,
    ) -> None:
        self.header = header
        self.listener = listener
        self.acks = acks
        self.verdicts = verdicts
        self.topics = topics
        """The results so far; the last topic may be incomplete."""
        self.parked = parked
        self.failed = failed


class Postponed(Exception):
    """The rest of the request must be appended in slices."""

    def __init__(self, writing: Writing) -> None:
        self.writing = writing


def read_kept(kept: KeptFrame, header: Header) -> ProduceRequest:
    return read_request(kept.view, header.body_position, header.version)


class SlicedProduce:
    def __init__(self, handler: "ProduceHandler", scheduler: Scheduler) -> None:
        self._handler = handler
        self._scheduler = scheduler

    def write(self, writing: Writing, request: ProduceRequest, kept: KeptFrame) -> Parked:
        """Append the rest of a request, and release its frame at the end."""
        outer = ParkedWrite()
        if writing.parked is not None:
            writing.parked.hold()

        def done(reply: Any, error: BaseException | None) -> None:
            kept.release()
            if error is None:
                outer.applied(reply)
            elif not isinstance(error, ClientGone):
                if not isinstance(error, CloseConnection):
                    log.error("%r failed", writing.header, exc_info=error)
                outer.fail()

        def is_wanted() -> bool:
            # A client with acks=0 may have disconnected, and still relies on its last batches.
            return not outer.is_abandoned or (
                writing.acks == 0 and self._scheduler.unfinished_count <= UNFINISHED_COUNT_MAX
            )

        memory = max((_memory(records) for _, _, _, records in _left(writing, request)), default=0)
        self._scheduler.run(self._rest(writing, request), done, is_wanted=is_wanted, memory=memory)
        return outer

    def _rest(self, writing: Writing, request: ProduceRequest) -> Job[Parts | Parked]:
        handler = self._handler
        size_left = SLICE_SIZE
        topics = writing.topics
        for topic_index, key, index, records in _left(writing, request):
            if topic_index == len(topics):
                topics.append((key, []))
            result = PartitionResult(index)
            waits_for = yield from handler.write_in_turn(writing, key, records, result)
            topics[-1][1].append(result)
            if waits_for is not None:
                if writing.parked is None:
                    writing.parked = handler.parked(request, writing.header, writing.listener, topics)
                    writing.parked.hold()
                writing.parked.wait(*waits_for, result)
            writing.failed = writing.failed or result.error_code != NO_ERROR
            size_left -= BATCH_COST if records is None else BATCH_COST + len(records)
            if size_left <= 0:
                size_left = SLICE_SIZE
                yield None
        if writing.parked is not None:
            writing.parked.let_go()
            return writing.parked
        return handler.reply(writing.acks, writing.header, topics, writing.listener, failed=writing.failed)


def _left(writing: Writing, request: ProduceRequest) -> Iterator[tuple[int, bytes, int, memoryview | None]]:
    """Yield the batches that are not appended yet: index of the topic, its name or id, partition, records."""
    begun = len(writing.topics)
    first = max(begun - 1, 0)
    done = len(writing.topics[-1][1]) if begun else 0
    for topic_index in range(first, len(request.topics)):
        key, partitions = request.topics[topic_index]
        for index, records in partitions[done:] if topic_index == first else partitions:
            yield topic_index, key, index, records


def _memory(records: memoryview | None) -> int:
    return 0 if records is None or len(records) < HEADER_SIZE else validate.memory_needed(records)
