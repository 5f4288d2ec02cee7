"""OffsetDelete, version 0: deletes committed offsets of topics that no member of the group subscribes to.

Goes to groups/offsets.py. Refuses: the whole request, INVALID_GROUP_ID, GROUP_ID_NOT_FOUND,
NON_EMPTY_GROUP, and what every coordinator refuses; per partition UNKNOWN_TOPIC_OR_PARTITION,
GROUP_SUBSCRIBED_TO_TOPIC.
"""

from kio.schema.errors import ErrorCode
from kio.schema.offset_delete.v0.request import OffsetDeleteRequest
from kio.schema.offset_delete.v0.response import (
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

from penstock.groups.commands import OffsetDelete, OffsetDeleteReply
from penstock.handlers.support.context import Context, Request
from penstock.handlers.support.entities import NO_THROTTLE, int32, topic_name
from penstock.model.acl import Operation
from penstock.model.errors import GroupAuthorizationFailed, Refusal
from penstock.model.ids import TopicName


async def handle(context: Context, request: Request) -> OffsetDeleteResponse:
    body: OffsetDeleteRequest = request.body
    image = context.quorum.image
    wanted = {str(topic.name): [partition.partition_index for partition in topic.partitions] for topic in body.topics}
    if not request.may_on_group(Operation.DELETE, body.group_id):
        return _refused(GroupAuthorizationFailed.code)
    denied = {name for name in wanted if not request.may_on_topic(Operation.READ, name)}
    known = {
        name: tuple(index for index in indexes if image.partition(TopicName(name), index) is not None)
        for name, indexes in wanted.items()
        if name not in denied
    }
    requested = tuple((name, indexes) for name, indexes in known.items() if indexes)
    try:
        reply: OffsetDeleteReply = await context.groups.ask(
            body.group_id, OffsetDelete(group_id=body.group_id, topics=requested)
        )
    except Refusal as refusal:
        reply = OffsetDeleteReply(error=refusal.code)
    if reply.error:
        return _refused(reply.error)
    errors = {name: ErrorCode(error) for (name, _), error in zip(requested, reply.errors, strict=True)}

    def _error(index: int, name: str) -> ErrorCode:
        if name in denied:
            return ErrorCode.topic_authorization_failed
        return errors[name] if index in known[name] else ErrorCode.unknown_topic_or_partition

    return OffsetDeleteResponse(
        error_code=ErrorCode.none,
        throttle_time=NO_THROTTLE,
        topics=tuple(
            OffsetDeleteResponseTopic(
                name=topic_name(name),
                partitions=tuple(
                    OffsetDeleteResponsePartition(partition_index=int32(index), error_code=_error(index, name))
                    # Partitions that do not exist come first, as in Kafka.
                    for index in sorted(indexes, key=known.get(name, ()).__contains__)
                ),
            )
            for name, indexes in wanted.items()
        ),
    )


def _refused(code: int) -> OffsetDeleteResponse:
    return OffsetDeleteResponse(error_code=ErrorCode(code), throttle_time=NO_THROTTLE, topics=())
