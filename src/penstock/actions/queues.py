"""Share groups: their members, start offsets and lag, the records that are in flight, and resetting to the end.

Members come from their group coordinator, offsets from API 90, finished records from API 84. Which member holds which
record is known only to the leader of a partition, which shows it on its monitoring endpoint. Raises ActionError.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, cast
from urllib.error import URLError
from urllib.request import urlopen

from kio.schema.alter_share_group_offsets.v0.request import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from kio.schema.describe_configs.v4.request import DescribeConfigsRequest, DescribeConfigsResource
from kio.schema.describe_share_group_offsets.v1.request import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from kio.schema.list_groups.v5.request import ListGroupsRequest
from kio.schema.read_share_group_state.v0 import request as read_state
from kio.schema.share_group_describe.v1.request import ShareGroupDescribeRequest
from kio.static.primitive import i8, i32, i64

from penstock.actions.cluster.offsets import LATEST, list_offsets
from penstock.actions.cluster_client import ClusterClient, raise_for_error
from penstock.actions.connection import REQUEST_TIMEOUT_S
from penstock.actions.errors import UNKNOWN_SHARE_GROUP, ActionError
from penstock.shares.keys import coordinator_key
from penstock.shares.states import FINAL_STATES, SharePartitionKey
from penstock.wire.api import ApiKey

GROUP: Final = 0
SHARE_PARTITION: Final = 2
NO_LEADER_EPOCH: Final = -1
"""A reader that is not the leader, and fences nobody."""
BROKER_CONFIG: Final = 4
GROUP_CONFIG: Final = 32
METRICS_LISTENER: Final = "metrics.listener"
DEAD_LETTER_TOPIC: Final = "errors.deadletterqueue.topic.name"
NO_METRICS_LISTENER: Final = "NO_METRICS_LISTENER"
_ANY_HOST: Final = frozenset({"", "0.0.0.0", "::"})
_FINISHED: Final = frozenset({"acknowledged", "archived"})


class QueueMember(NamedTuple):
    member: str
    client_id: str
    host: str
    partitions: tuple[tuple[str, int], ...]


class Queue(NamedTuple):
    """A share group as its coordinator describes it."""

    group: str
    state: str
    coordinator: int
    members: tuple[QueueMember, ...]


class QueuePartition(NamedTuple):
    group: str
    topic: str
    partition: int
    start_offset: int | None
    """None before the first fetch of a group that starts at the end of the log."""
    lag: int | None


class RecordRange(NamedTuple):
    """Records in flight with the same state and holder."""

    group: str
    topic: str
    partition: int
    first_offset: int
    last_offset: int
    state: str
    delivery_count: int
    member: str | None
    lock_left_ms: int | None
    delay_left_ms: int | None

    @property
    def is_finished(self) -> bool:
        return self.state in _FINISHED


def list_queues(cluster: ClusterClient) -> list[Queue]:
    """Return all share groups."""
    return sorted(queue for node, names in queue_names(cluster).items() for queue in _describe(cluster, node, names))


def queue_names(cluster: ClusterClient) -> dict[int, list[str]]:
    """Return the names of all share groups by their coordinator."""
    found: dict[int, list[str]] = {}
    for node in cluster.brokers:
        answer = cluster.send(node, ApiKey.LIST_GROUPS, ListGroupsRequest(types_filter=("share",)))
        raise_for_error(answer.error_code, about="the groups")
        found[node] = [str(each.group_id) for each in answer.groups if each.group_type.lower() == "share"]
    return found


def describe_queues(cluster: ClusterClient, names: Sequence[str]) -> list[Queue]:
    """Return share groups by name; raise if one does not exist."""
    found = {
        queue.group: queue
        for node, keys in cluster.coordinators(list(dict.fromkeys(names)), GROUP).items()
        for queue in _describe(cluster, node, keys)
    }
    for name in names:
        if name not in found:
            raise ActionError(f"Share group '{name}' does not exist.", code=UNKNOWN_SHARE_GROUP, about=name)
    return [found[name] for name in dict.fromkeys(names)]


def _describe(cluster: ClusterClient, node: int, names: Sequence[str]) -> Iterator[Queue]:
    if not names:
        return
    request: Any = ShareGroupDescribeRequest(group_ids=cast(Any, tuple(names)), include_authorized_operations=False)
    for each in cluster.send(node, ApiKey.SHARE_GROUP_DESCRIBE, request).groups:
        if not each.error_code.value:
            members = tuple(map(_member, each.members))
            yield Queue(str(each.group_id), each.group_state, node, members)


def _member(member: Any) -> QueueMember:
    partitions = tuple(
        (str(topic.topic_name), int(index))
        for topic in member.assignment.topic_partitions
        for index in topic.partitions
    )
    return QueueMember(member.member_id, member.client_id, member.client_host, partitions)


def queue_partitions(cluster: ClusterClient, queue: Queue) -> list[QueuePartition]:
    """Return the partitions of a share group that have state."""
    requested = DescribeShareGroupOffsetsRequestGroup(group_id=cast(Any, queue.group), topics=None)
    request = DescribeShareGroupOffsetsRequest(groups=(requested,))
    (answer,) = cluster.send(queue.coordinator, ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, request).groups
    raise_for_error(answer.error_code, about=queue.group)
    return sorted(
        QueuePartition(
            queue.group,
            str(topic.topic_name),
            int(each.partition_index),
            _known(each.start_offset),
            _known(each.lag),
        )
        for topic in answer.topics
        for each in topic.partitions
        if not each.error_code.value
    )


def _known(value: int) -> int | None:
    return int(value) if value >= 0 else None


def finished_ranges(cluster: ClusterClient, partition: QueuePartition) -> list[range]:
    """Return the offsets after the start offset that are finished, as the share coordinator has stored them."""
    topic_id = next(topic.topic_id for topic in cluster.topics if topic.name == partition.topic)
    key = coordinator_key(SharePartitionKey(partition.group, topic_id, partition.partition))
    (node,) = cluster.coordinators([key], SHARE_PARTITION)
    data = read_state.PartitionData(partition=i32(partition.partition), leader_epoch=i32(NO_LEADER_EPOCH))
    request = read_state.ReadShareGroupStateRequest(
        group_id=cast(Any, partition.group),
        topics=(read_state.ReadStateData(topic_id=topic_id, partitions=(data,)),),
    )
    result = cluster.send(node, ApiKey.READ_SHARE_GROUP_STATE, request).results[0].partitions[0]
    raise_for_error(result.error_code, about=f"{partition.topic}-{partition.partition}")
    return [
        range(int(each.first_offset), int(each.last_offset) + 1)
        for each in result.state_batches
        if each.delivery_state in FINAL_STATES
    ]


def log_ends(cluster: ClusterClient, partitions: Iterable[QueuePartition]) -> dict[tuple[str, int], int]:
    """Return the ends of the logs of the topics of these partitions."""
    named = {each.topic for each in partitions}
    return list_offsets(cluster, LATEST, [topic for topic in cluster.topics if topic.name in named])


def purge(
    cluster: ClusterClient,
    queue: Queue,
    topics: Sequence[str] = (),
    ends: Mapping[tuple[str, int], int] | None = None,
) -> list[QueuePartition]:
    """Move the start offsets of a group without members to the ends of the logs; return what was changed.

    `ends` are the new start offsets, if they are not the present ends.
    """
    partitions = [each for each in queue_partitions(cluster, queue) if not topics or each.topic in topics]
    ends = log_ends(cluster, partitions) if ends is None else ends
    moved = [each for each in partitions if (each.topic, each.partition) in ends]
    request = AlterShareGroupOffsetsRequest(
        group_id=cast(Any, queue.group),
        topics=tuple(
            AlterShareGroupOffsetsRequestTopic(
                topic_name=cast(Any, topic),
                partitions=tuple(
                    AlterShareGroupOffsetsRequestPartition(
                        partition_index=i32(each.partition), start_offset=i64(ends[topic, each.partition])
                    )
                    for each in moved
                    if each.topic == topic
                ),
            )
            for topic in sorted({each.topic for each in moved})
        ),
    )
    if not moved:
        return []
    answer = cluster.send(queue.coordinator, ApiKey.ALTER_SHARE_GROUP_OFFSETS, request)
    raise_for_error(answer.error_code, about=queue.group)
    for result in answer.responses:
        for each in result.partitions:
            raise_for_error(each.error_code, about=f"{result.topic_name}-{each.partition_index}")
    return [each._replace(start_offset=ends[each.topic, each.partition]) for each in moved]


def dead_letter_topic(cluster: ClusterClient, group: str) -> str:
    """Return the dead-letter topic of a share group; raise if it has none."""
    name = _config(cluster, queue_coordinator(cluster, group), GROUP_CONFIG, group, DEAD_LETTER_TOPIC)
    if not name:
        raise ActionError(
            f"Share group '{group}' has no dead-letter topic: {DEAD_LETTER_TOPIC} is not set.",
            code="NO_DEAD_LETTER_TOPIC",
        )
    return name


def queue_coordinator(cluster: ClusterClient, group: str) -> int:
    (node,) = cluster.coordinators([group], GROUP)
    return node


def _config(cluster: ClusterClient, node: int, kind: int, resource: str, name: str) -> str:
    requested = DescribeConfigsResource(resource_type=i8(kind), resource_name=resource, configuration_keys=(name,))
    (answer,) = cluster.send(node, ApiKey.DESCRIBE_CONFIGS, DescribeConfigsRequest(resources=(requested,))).results
    raise_for_error(answer.error_code, about=resource)
    return next((each.value or "" for each in answer.configs if each.name == name), "")


# -- records in flight -----------------------------------------------------------------------


def records_in_flight(cluster: ClusterClient) -> list[RecordRange]:
    """Return the records in flight of all share groups, from the monitoring endpoint of each broker."""
    return sorted(found for broker in cluster.metadata.brokers for found in _ranges(_share_partitions(cluster, broker)))


def _share_partitions(cluster: ClusterClient, broker: Any) -> list[dict[str, Any]]:
    node = int(broker.node_id)
    address = _config(cluster, node, BROKER_CONFIG, str(node), METRICS_LISTENER)
    host, _, port = address.removeprefix("http://").rpartition(":")
    if not port or port == "0":
        raise ActionError(
            f"Cannot read the records in flight on broker {node}: {METRICS_LISTENER} is not set, or its port is 0.",
            code=NO_METRICS_LISTENER,
        )
    reached = str(broker.host) if host in _ANY_HOST else host
    url = f"http://{reached}:{port}/share-partitions"
    try:
        with urlopen(url, timeout=REQUEST_TIMEOUT_S) as response:
            found: list[dict[str, Any]] = json.load(response)
            return found
    except (URLError, OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise ActionError(f"Cannot read {url}: {reason}.", code=NO_METRICS_LISTENER) from None


def _ranges(partitions: Iterable[dict[str, Any]]) -> Iterator[RecordRange]:
    for each in partitions:
        for found in each["records"]:
            yield RecordRange(each["group"], each["topic"], each["partition"], **found)
