"""OffsetCommit, versions 2-10: how far a group, or a consumer on its own, has come.

v2-4 carry a time to keep the offset, v6 brought the leader epoch, v7 static members, v9 the member
epoch and GROUP_ID_NOT_FOUND where there was ILLEGAL_GENERATION, v10 topic ids. A commit is answered
when it is in the log to stay. It is kept with the topic's id even when the client gave a name, so
that it never speaks of a later topic of that name. Read and written by wire/hot/offset_commit.py;
goes to groups/offsets.py. Refuses, per partition: UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID,
OFFSET_METADATA_TOO_LARGE, and for all of them what the group refuses.
"""

from typing import TYPE_CHECKING, Final

from penstock.groups.commands import OffsetCommit, OffsetCommitReply, OffsetToCommit
from penstock.handlers.context import Context, Request
from penstock.handlers.reply import Encoded
from penstock.model.errors import Refusal, UnknownTopicId, UnknownTopicOrPartition
from penstock.model.ids import TopicName
from penstock.wire.hot import offset_commit as wire

if TYPE_CHECKING:
    from penstock.metadata.image import Image, TopicImage

MEMBER_EPOCHS_FROM: Final = 9


async def handle(context: Context, request: Request) -> Encoded:
    body: wire.OffsetCommitRequest = request.body
    header = request.header
    image = context.quorum.image
    # First what is refused here, then what the group says, as Kafka has it.
    results: dict[wire.Topic, list[tuple[int, int]]] = {}
    offsets: list[OffsetToCommit] = []
    named: list[wire.Topic] = []
    for topic_named, partitions in body.topics:
        topic = _find(image, topic_named)
        for index, offset, leader_epoch, metadata in partitions:
            if topic is None or not 0 <= index < len(topic.partitions):
                is_unknown_id = topic is None and not isinstance(topic_named, str)
                error = UnknownTopicId.code if is_unknown_id else UnknownTopicOrPartition.code
                results.setdefault(topic_named, []).append((index, error))
                continue
            named.append(topic_named)
            offsets.append(
                OffsetToCommit(
                    topic=topic.name,
                    topic_id=topic.id,
                    partition=index,
                    offset=offset,
                    leader_epoch=leader_epoch,
                    metadata=metadata,
                )
            )
    if offsets:
        errors = await _commit(context, header.version, body, tuple(offsets))
        for topic_named, committed, error in zip(named, offsets, errors, strict=True):
            results.setdefault(topic_named, []).append((committed.partition, error))
    return Encoded((wire.write_response(header.version, header.correlation_id, list(results.items())),))


def _find(image: "Image", named: wire.Topic) -> "TopicImage | None":
    return image.topics.get(TopicName(named)) if isinstance(named, str) else image.topics_by_id.get(named)


async def _commit(
    context: Context, version: int, body: wire.OffsetCommitRequest, offsets: tuple[OffsetToCommit, ...]
) -> tuple[int, ...]:
    command = OffsetCommit(
        group_id=body.group_id,
        generation=body.generation,
        member_id=body.member_id,
        instance_id=body.instance_id,
        retention_ms=body.retention_ms,
        offsets=offsets,
        knows_member_epochs=version >= MEMBER_EPOCHS_FROM,
    )
    try:
        reply: OffsetCommitReply = await context.groups.ask(body.group_id, command)
    except Refusal as refusal:
        return (refusal.code,) * len(offsets)
    return reply.errors
