"""DeleteTopics, versions 1-6: by name, from v6 by name or id (the codec converts older requests to v6).

The topic is removed from the image when the response is sent; the janitor frees the space later. A topic that
occurs twice in the request, by name or id, is not deleted. With delete.topic.enable=false every topic is
refused: TOPIC_DELETION_DISABLED, or INVALID_REQUEST before v3, which did not have that code.
Goes to controller/topics.py. Refuses: per topic, UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID,
INVALID_REQUEST, from v5 on THROTTLING_QUOTA_EXCEEDED; the whole request, REQUEST_TIMED_OUT.
"""

from typing import Final

from kio.schema.delete_topics.v6.request import DeleteTopicsRequest
from kio.schema.delete_topics.v6.response import DeletableTopicResult, DeleteTopicsResponse
from kio.schema.errors import ErrorCode

from penstock.controller.topics import DeletedTopic, TopicReference, decide_delete
from penstock.handlers.support.context import Context, Request
from penstock.handlers.support.deadline import within
from penstock.handlers.support.entities import NO_ERROR, NO_THROTTLE, failed, topic_name
from penstock.handlers.support.throttled import STRICT_DELETE_TOPICS_FROM, Mutations
from penstock.metadata.image import Image
from penstock.model.acl import Operation
from penstock.model.errors import Refusal, ThrottlingQuotaExceeded, TopicAuthorizationFailed
from penstock.model.ids import TopicName

KNOWS_DELETION_DISABLED_FROM: Final = 3


async def handle(context: Context, request: Request) -> DeleteTopicsResponse:
    body: DeleteTopicsRequest = request.body
    if not context.settings.flag("delete.topic.enable"):
        if request.header.version < KNOWS_DELETION_DISABLED_FROM:
            return _refused(body, ErrorCode.invalid_request)
        return _refused(body, ErrorCode.topic_deletion_disabled)
    references = [
        TopicReference(name=None if topic.name is None else TopicName(topic.name), id=topic.topic_id)
        for topic in body.topics
    ]
    denied: list[DeletedTopic] = []
    if request.rights is not None:
        image = context.quorum.image
        outcomes = [_denial(image, request, reference) for reference in references]
        denied = [outcome for outcome in outcomes if outcome is not None]
        references = [reference for reference, outcome in zip(references, outcomes, strict=True) if outcome is None]
    charge = Mutations(context, request, strict_from=STRICT_DELETE_TOPICS_FROM).charge
    try:
        deleted = await within(
            context.clock,
            body.timeout,
            context.controller.run(lambda image: decide_delete(image, references, charge=charge)),
        )
    except Refusal as refusal:
        return _refused(body, failed(refusal))
    return DeleteTopicsResponse(throttle_time=NO_THROTTLE, responses=tuple(map(_result, (*denied, *deleted))))


def _denial(image: Image, request: Request, reference: TopicReference) -> DeletedTopic | None:
    """Return the result for a topic that the client may not delete; None if it may, or if there is no such id."""
    name = reference.name
    if reference.id is not None:
        topic = image.topics_by_id.get(reference.id)
        if name is not None or topic is None:
            return None
        name = topic.name
    if name is None or not request.topics_beyond_cluster(Operation.DELETE, (name,)):
        return None
    is_visible = request.may_on_topic(Operation.DESCRIBE, name, is_asked=False)
    if reference.id is None:
        if is_visible and (name not in image.topics or request.may_on_topic(Operation.DELETE, name)):
            return None
        return DeletedTopic(name=name, id=None, refusal=TopicAuthorizationFailed())
    if request.may_on_topic(Operation.DELETE, name):
        return None
    return DeletedTopic(name=name if is_visible else None, id=reference.id, refusal=TopicAuthorizationFailed())


def _result(outcome: DeletedTopic) -> DeletableTopicResult:
    return DeletableTopicResult(
        name=None if outcome.name is None else topic_name(outcome.name),
        topic_id=outcome.id,
        error_code=NO_ERROR if outcome.refusal is None else failed(outcome.refusal),
        # For a quota, Kafka sends only the code.
        error_message=None
        if outcome.refusal is None or isinstance(outcome.refusal, ThrottlingQuotaExceeded)
        else outcome.refusal.message,
    )


def _refused(body: DeleteTopicsRequest, error: ErrorCode) -> DeleteTopicsResponse:
    return DeleteTopicsResponse(
        throttle_time=NO_THROTTLE,
        responses=tuple(
            DeletableTopicResult(name=topic.name, topic_id=topic.topic_id, error_code=error) for topic in body.topics
        ),
    )
