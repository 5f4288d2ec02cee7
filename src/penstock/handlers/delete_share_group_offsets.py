"""DeleteShareGroupOffsets, version 0: deletes the state of topics in an empty share group.

Goes to support/share_deletion.py. Refuses: UNSUPPORTED_VERSION unless the feature share.version is at 1,
NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND; per topic UNKNOWN_TOPIC_OR_PARTITION, and what every coordinator refuses.
"""

from kio.schema.delete_share_group_offsets.v0.request import DeleteShareGroupOffsetsRequest
from kio.schema.delete_share_group_offsets.v0.response import (
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)
from kio.schema.errors import ErrorCode

from penstock.handlers.support.context import Context, Request
from penstock.handlers.support.entities import NO_ERROR, NO_THROTTLE, ZERO_UUID, topic_name
from penstock.handlers.support.share_deletion import delete_state
from penstock.handlers.support.share_requests import check_enabled
from penstock.model.acl import Operation
from penstock.model.errors import GroupAuthorizationFailed, Refusal, TopicAuthorizationFailed, UnknownTopicOrPartition
from penstock.model.ids import TopicName


async def handle(context: Context, request: Request) -> DeleteShareGroupOffsetsResponse:
    body: DeleteShareGroupOffsetsRequest = request.body
    image = context.quorum.image
    try:
        check_enabled(context)
        if not request.may_on_group(Operation.DELETE, body.group_id):
            raise GroupAuthorizationFailed
    except Refusal as refusal:
        return _response((), ErrorCode(refusal.code), refusal.message)
    denied = [topic.topic_name for topic in body.topics if not request.may_on_topic(Operation.READ, topic.topic_name)]
    results = [_denied(name) for name in denied]
    named = {
        topic.topic_name: image.topics.get(TopicName(topic.topic_name))
        for topic in body.topics
        if topic.topic_name not in denied
    }
    try:
        errors = await delete_state(
            context, body.group_id, frozenset(topic.id for topic in named.values() if topic is not None)
        )
    except Refusal as refusal:
        return _response((), ErrorCode(refusal.code), refusal.message)
    for name, topic in named.items():
        error, message = UnknownTopicOrPartition.code, UnknownTopicOrPartition.meaning
        if topic is not None:
            error, message = errors.get(topic.id, (error, "There is no offset information to delete."))
        results.append(
            DeleteShareGroupOffsetsResponseTopic(
                topic_name=name,
                topic_id=ZERO_UUID if topic is None else topic.id,
                error_code=ErrorCode(error),
                error_message=message or None,
            )
        )
    return _response(tuple(results))


def _denied(name: str) -> DeleteShareGroupOffsetsResponseTopic:
    refusal = TopicAuthorizationFailed()
    return DeleteShareGroupOffsetsResponseTopic(
        topic_name=topic_name(name),
        topic_id=ZERO_UUID,
        error_code=ErrorCode(refusal.code),
        error_message=refusal.message,
    )


def _response(
    topics: tuple[DeleteShareGroupOffsetsResponseTopic, ...], error: ErrorCode = NO_ERROR, message: str | None = None
) -> DeleteShareGroupOffsetsResponse:
    return DeleteShareGroupOffsetsResponse(
        throttle_time=NO_THROTTLE, error_code=error, error_message=message, responses=topics
    )
