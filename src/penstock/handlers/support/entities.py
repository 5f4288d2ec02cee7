"""Small functions for building responses from the schema's classes.

The schema uses nominal types for integers and names, although at run time any int or str in range
is valid; these functions satisfy the type checker and cost next to nothing.
"""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Final, cast
from uuid import UUID

from kio.schema.errors import ErrorCode
from kio.schema.types import BrokerId, GroupId
from kio.schema.types import TopicName as WireTopicName
from kio.static.primitive import TZAware, i8, i16, i32, i32Timedelta, i64

from penstock.model.errors import Refusal
from penstock.model.ids import NodeId

NO_THROTTLE: Final = i32Timedelta.parse(timedelta(0))
NO_ERROR: Final = ErrorCode.none
MILLISECOND: Final = timedelta(milliseconds=1)
EPOCH: Final = cast(TZAware, datetime.fromtimestamp(0, UTC))
NO_TIME: Final = EPOCH - MILLISECOND
"""The value of a missing time: -1 on the wire."""

# Without an authorizer every client may perform every operation of a resource. The bits are the
# numbers of the ACL operations.
TOPIC_OPERATIONS: Final = i32(sum(1 << operation for operation in (3, 4, 5, 6, 7, 8, 10, 11)))
GROUP_OPERATIONS: Final = i32(sum(1 << operation for operation in (3, 6, 8, 10, 11)))
OPERATIONS_UNKNOWN: Final = i32(-(2**31))
CLUSTER_OPERATIONS: Final = i32(sum(1 << operation for operation in (5, 7, 8, 9, 10, 11, 12)))


HIDDEN_TOPICS: Final = "The group has described topic(s) that the client is not authorized to describe."
ZERO_UUID: Final = UUID(int=0)


def present(value: UUID | None) -> UUID:
    """Return a UUID in Kafka's form, in which none is zero."""
    return ZERO_UUID if value is None else value


def failed(refusal: Refusal) -> ErrorCode:
    return ErrorCode(refusal.code)


def topic_name(name: str) -> WireTopicName:
    return cast(WireTopicName, name)


def node(node_id: int) -> BrokerId:
    return cast(BrokerId, node_id)


def nodes(node_ids: Iterable[NodeId]) -> tuple[BrokerId, ...]:
    return cast("tuple[BrokerId, ...]", tuple(node_ids))


def group(group_id: str) -> GroupId:
    return cast(GroupId, group_id)


def milliseconds(value: int) -> i32Timedelta:
    return cast(i32Timedelta, timedelta(milliseconds=value))


def in_milliseconds(value: timedelta) -> int:
    return value // MILLISECOND


def time(milliseconds_since_1970: int) -> TZAware:
    return EPOCH + timedelta(milliseconds=milliseconds_since_1970)


def int8(value: int) -> i8:
    return cast(i8, value)


def int16(value: int) -> i16:
    return cast(i16, value)


def int32(value: int) -> i32:
    return cast(i32, value)


def int64(value: int) -> i64:
    return cast(i64, value)
