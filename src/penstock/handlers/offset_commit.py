"""OffsetCommit, versions 2-10: how far a group, or a consumer on its own, has come. Hot: no coroutine.

v2-4 carry a time to keep the offset, v6 brought the leader epoch, v7 static members, v9 the member
epoch and GROUP_ID_NOT_FOUND where there was ILLEGAL_GENERATION, v10 topic ids. A commit is answered
when it is in the log to stay. It is kept with the topic's id even when the client gave a name, so
that it never speaks of a later topic of that name. Goes to groups/service.py. Refuses, per partition:
UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID, OFFSET_METADATA_TOO_LARGE, and for all what the group refuses.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, NamedTuple
from uuid import UUID

from penstock.groups.commands import COMMITTED, OffsetCommit, OffsetToCommit
from penstock.handlers.context import Context
from penstock.handlers.reply import Parked, Parts
from penstock.metadata.image import Image
from penstock.model.errors import NO_ERROR, UNKNOWN_SERVER_ERROR, Refusal, UnknownTopicId, UnknownTopicOrPartition
from penstock.model.ids import TopicName
from penstock.wire.frame import Header
from penstock.wire.hot import offset_commit as wire

MEMBER_EPOCHS_FROM: Final = 9
REMEMBERED_MAX: Final = 1 << 12
"""Of so many consumers it is remembered what they commit; that takes less than a kilobyte each."""

Results = dict[wire.Topic, list[tuple[int, int]]]
"""Partitions and their error codes, by topic."""

# Named tuples from all of their fields, in half the time: made for every commit.
_offset_to_commit: Callable[[tuple[str, int, int, UUID, int, str | None]], OffsetToCommit] = partial(
    tuple.__new__, OffsetToCommit
)
_offset_commit: Callable[[tuple[str, Sequence[OffsetToCommit], int, str, str | None, int, bool]], OffsetCommit] = (
    partial(tuple.__new__, OffsetCommit)
)


class _Remembered(NamedTuple):
    """What all commits of one consumer for one partition have in common while the metadata stay the same."""

    group_id: str
    generation: int
    member_id: str
    instance_id: str | None
    topic: TopicName
    partition: int
    topic_id: UUID
    named: list[tuple[wire.Topic, int]]
    response: wire.PreparedResponse


class ParkedCommit(Parked):
    """A commit that is decided and only waits for the log: requests behind it need not wait."""

    __slots__ = ("_header", "_named", "_response", "_results")

    def __init__(
        self,
        header: Header,
        results: Results,
        named: list[tuple[wire.Topic, int]],
        response: wire.PreparedResponse | None = None,
    ) -> None:
        super().__init__()
        self._header = header
        self._results = results
        self._named = named
        self._response = response

    def done(self, reply: Any, error: Exception | None) -> None:
        if reply is COMMITTED and self._response is not None and not self._header.throttle_ms:
            self.ready((self._response.to(self._header.correlation_id),))
        elif error is None:
            self.ready(self.answer(reply.errors))
        else:
            self.ready(self.refuse(error))

    def refuse(self, error: Exception) -> Parts:
        code = error.code if isinstance(error, Refusal) else UNKNOWN_SERVER_ERROR
        return self.answer([code] * len(self._named))

    def answer(self, errors: Sequence[int]) -> Parts:
        # First what was refused here, then what the group says, as Kafka has it.
        results = self._results
        for (topic, partition), error in zip(self._named, errors, strict=True):
            if topic in results:
                results[topic].append((partition, error))
            else:
                results[topic] = [(partition, error)]
        header = self._header
        rows = list(results.items())
        return (wire.write_response(header.version, header.correlation_id, rows, throttle_ms=header.throttle_ms),)


class OffsetCommitHandler:
    def __init__(self, context: Context) -> None:
        self._quorum = context.quorum
        self._groups = context.groups
        self._image: Image | None = None
        self._remembered: dict[tuple[int, bytes], _Remembered] = {}
        """By version, and by the request up to where it differs from the one before."""

    def handle(self, frame: memoryview, header: Header) -> Parts | Parked:
        version = header.version
        data = bytes(frame[header.body_position :])
        image = self._quorum.image
        if image is not self._image:
            self._remembered.clear()
            self._image = image
        seen = self._remembered.get((version, data[: -wire.REPEATED_END]))
        if seen is None:
            return self._handle_any(data, header, image)
        offset, leader_epoch, end = wire.read_repeated_end(data, len(data) - wire.REPEATED_END)
        if end not in wire.NO_NOTE:
            return self._handle_any(data, header, image)
        group_id, generation, member_id, instance_id, topic, index, topic_id, named, response = seen
        offsets = (_offset_to_commit((topic, index, offset, topic_id, leader_epoch, wire.NO_NOTE[end])),)
        knows_epochs = version >= MEMBER_EPOCHS_FROM
        return self._commit(
            _offset_commit((group_id, offsets, generation, member_id, instance_id, -1, knows_epochs)),
            ParkedCommit(header, {}, named, response),
        )

    def _handle_any(self, data: bytes, header: Header, image: Image) -> Parts | Parked:
        version = header.version
        body = wire.read_one(version, data) if version >= wire.FLEXIBLE_FROM else None
        # Only without a note is it known where the offset stands.
        is_repeatable = body is not None and not body.topics[0][1][0][3]
        if body is None:
            body = wire.read_any(version, data)
        by_name, by_id = image.topics, image.topics_by_id
        results: Results = {}
        offsets: list[OffsetToCommit] = []
        named: list[tuple[wire.Topic, int]] = []
        for topic_named, partitions in body.topics:
            if isinstance(topic_named, str):
                topic, unknown = by_name.get(TopicName(topic_named)), UnknownTopicOrPartition.code
            else:
                topic, unknown = by_id.get(topic_named), UnknownTopicId.code
            count = 0 if topic is None else len(topic.partitions)
            for index, offset, leader_epoch, metadata in partitions:
                if topic is None or not 0 <= index < count:
                    error = unknown if topic is None else UnknownTopicOrPartition.code
                    results.setdefault(topic_named, []).append((index, error))
                    continue
                named.append((topic_named, index))
                offsets.append(OffsetToCommit(topic.name, index, offset, topic.id, leader_epoch, metadata))
        parked = ParkedCommit(header, results, named)
        if not offsets:
            return parked.answer([])
        group_id, generation, member_id, instance_id, retention_ms, _ = body
        if is_repeatable:
            self._remember(version, data, (group_id, generation, member_id, instance_id), offsets[0], named)
        command = OffsetCommit(
            group_id, offsets, generation, member_id, instance_id, retention_ms, version >= MEMBER_EPOCHS_FROM
        )
        return self._commit(command, parked)

    def _commit(self, command: OffsetCommit, parked: ParkedCommit) -> Parts | Parked:
        try:
            self._groups.commit(command, parked.done)
        except Refusal as refusal:
            return parked.refuse(refusal)
        return parked

    def _remember(
        self,
        version: int,
        data: bytes,
        whose: tuple[str, int, str, str | None],
        offset: OffsetToCommit,
        named: list[tuple[wire.Topic, int]],
    ) -> None:
        """The next commit of this consumer need not be read nor looked up, only its offset."""
        if len(self._remembered) >= REMEMBERED_MAX:
            self._remembered.clear()
        ((topic_named, index),) = named
        response = wire.PreparedResponse(version, [(topic_named, [(index, NO_ERROR)])])
        self._remembered[version, data[: -wire.REPEATED_END]] = _Remembered(
            *whose, TopicName(offset.topic), index, offset.topic_id, named, response
        )
