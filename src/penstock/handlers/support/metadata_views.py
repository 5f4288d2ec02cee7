"""Topics encoded for Metadata responses, each once for all clients with the same view.

What a client sees of a topic depends on its version, on the authorized operations it requests, and on the
brokers that its listener reaches. Each such view caches the encoded topics; an entry is valid while
the image still holds the same object it was encoded from, since images share unchanged objects.
Reads images only. Bounded: views by count and size, entries by the number of topics.
Goes to wire/hot/metadata.py. Refuses nothing.
"""

import asyncio
from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from penstock.controller.leaders import directory_of
from penstock.handlers.support.cluster_view import controller_for_clients, reachable_brokers
from penstock.metadata.records import LOST_DIRECTORY
from penstock.model.errors import NO_ERROR, InvalidTopic, LeaderNotAvailable, UnknownTopicOrPartition
from penstock.model.ids import NO_NODE, NodeId, TopicName
from penstock.model.topic import is_internal, name_problem
from penstock.wire.hot import metadata as wire

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from uuid import UUID

    from penstock.metadata.delta import Delta
    from penstock.metadata.image import Image, PartitionImage, TopicImage

LISTENER_NOT_FOUND_FROM: Final = 6
LISTENER_NOT_FOUND: Final = 72
REPLICA_NOT_AVAILABLE: Final = 9

VIEWS_MAX: Final = 8
VIEWS_SIZE_MAX: Final = 128 * 1024 * 1024
"""When a new view exceeds this, the least recently used ones are dropped."""

LINGER_S: Final = 3.0
_NO_NODES: Final[frozenset[NodeId]] = frozenset()

ASSIGNMENTS_MAX: Final = 4096
FORGOTTEN_MAX: Final = 1000

_Assignment = tuple[NodeId, tuple[NodeId, ...], tuple[NodeId, ...], tuple["UUID", ...]]


class Reach:
    """The brokers of an image that the clients of one listener can reach."""

    __slots__ = ("_clusters", "_listener", "brokers", "lingering", "reachable", "without_listener")

    def __init__(self, image: "Image", listener: str, lingering: frozenset[NodeId] = _NO_NODES) -> None:
        self.brokers = image.brokers
        self.lingering = lingering
        self.reachable = frozenset(broker.node_id for broker, _ in reachable_brokers(image, listener))
        self.without_listener = frozenset(broker.node_id for broker in image.live_brokers()) - self.reachable
        """Alive, but without this listener."""
        self._listener = listener
        self._clusters: dict[tuple[int, str, NodeId, bool], bytes] = {}

    def cluster(self, image: "Image", version: int, cluster_id: str, node_id: NodeId, *, lingers: bool = True) -> bytes:
        """Encode the brokers and the cluster's fields; `lingers` includes brokers that were fenced just now."""
        assert image.brokers is self.brokers, "the image has other brokers"
        key = version, cluster_id, node_id, lingers
        packed = self._clusters.get(key)
        if packed is None:
            brokers = [
                (broker.node_id, end_point.host, end_point.port, broker.rack)
                for broker, end_point in reachable_brokers(image, self._listener, with_fenced=True)
                if not broker.fenced or (lingers and broker.node_id in self.lingering)
            ]
            controller = controller_for_clients(image, node_id, self._listener)
            packed = self._clusters[key] = wire.pack_cluster(version, brokers, cluster_id, controller)
        return packed


class View:
    """The encoded topics that were requested, for clients with the same view."""

    __slots__ = (
        "_all",
        "_assignments",
        "_encoded_from",
        "_operations",
        "_pieces",
        "_reachable",
        "_version",
        "_without_listener",
        "encoding_all",
        "size",
    )

    def __init__(self, version: int, operations: int, reach: Reach) -> None:
        self._version = version
        self._operations = operations
        self._reachable = reach.reachable
        self._without_listener = reach.without_listener
        # Two dicts, since a pair for each of many topics would be one more object for the garbage collector.
        self._pieces: dict[TopicName, bytes] = {}
        self._encoded_from: dict[TopicName, TopicImage] = {}
        self._assignments: dict[_Assignment, tuple[int, NodeId, bytes]] = {}
        self._all: tuple[Mapping[TopicName, TopicImage] | None, bytes] = None, b""
        self.encoding_all = asyncio.Lock()
        self.size = 0

    def cached(self, topic: "TopicImage") -> bytes | None:
        """Return the encoded topic if it is cached."""
        return self._pieces[topic.name] if self._encoded_from.get(topic.name) is topic else None

    def cached_all(self, image: "Image") -> bytes | None:
        """Return all encoded topics, joined, if they are cached."""
        return self._all[1] if self._all[0] is image.topics else None

    def cache_all(self, image: "Image", pieces: bytes) -> None:
        self.size += len(pieces) - len(self._all[1])
        self._all = image.topics, pieces

    def topic(self, topic: "TopicImage") -> bytes:
        """Encode the topic, and cache it."""
        assignments = self._assignments
        rows = []
        for partition in topic.partitions:
            key = partition.leader, partition.replicas, partition.isr, partition.directories
            assignment = assignments.get(key)
            if assignment is None:
                assignment = self._assignment(partition)
                if len(assignments) < ASSIGNMENTS_MAX:
                    assignments[key] = assignment
            error, leader, lists = assignment
            rows.append((error, leader, partition.leader_epoch, lists))
        piece = wire.pack_topic(
            self._version,
            NO_ERROR,
            topic.name,
            topic.id,
            is_internal=is_internal(topic.name),
            rows=rows,
            operations=self._operations,
        )
        self.size += len(piece) - len(self._pieces.get(topic.name, b""))
        self._pieces[topic.name] = piece
        self._encoded_from[topic.name] = topic
        return piece

    def missing(self, name: TopicName) -> bytes:
        """Encode the error for a name that no topic has. Not cached: clients can send any name."""
        error = UnknownTopicOrPartition if name_problem(name) is None else InvalidTopic
        return self._bare(error.code, name, None)

    def without_leader(self, topic: "TopicImage") -> bytes:
        """Encode a topic that was just created. Not cached: the next request gets all of it."""
        return self._bare(LeaderNotAvailable.code, topic.name, topic.id)

    def _bare(self, error_code: int, name: TopicName, topic_id: "UUID | None") -> bytes:
        return wire.pack_topic(
            self._version,
            error_code,
            name,
            topic_id,
            is_internal=is_internal(name),
            rows=(),
            operations=self._operations,
        )

    def forget_deleted(self, image: "Image") -> None:
        """Drop the entries of deleted topics when they are the majority."""
        if len(self._pieces) > 2 * len(image.topics) + FORGOTTEN_MAX:
            self._pieces = {name: piece for name, piece in self._pieces.items() if name in image.topics}
            self._encoded_from = {name: topic for name, topic in self._encoded_from.items() if name in image.topics}
            self._all = None, b""
            self.size = sum(map(len, self._pieces.values()))

    def _assignment(self, partition: "PartitionImage") -> tuple[int, NodeId, bytes]:
        """Return a partition's error, its visible leader, and its encoded lists of nodes."""
        reachable = self._reachable
        replicas, in_sync = partition.replicas, partition.isr
        if self._version == 0:
            replicas = tuple(node_id for node_id in replicas if node_id in reachable)
            in_sync = tuple(node_id for node_id in in_sync if node_id in reachable)
        leader, error = partition.leader, NO_ERROR
        if leader not in reachable:
            is_elsewhere = leader in self._without_listener and self._version >= LISTENER_NOT_FOUND_FROM
            leader, error = NO_NODE, LISTENER_NOT_FOUND if is_elsewhere else LeaderNotAvailable.code
        elif len(replicas) < len(partition.replicas) or len(in_sync) < len(partition.isr):
            error = REPLICA_NOT_AVAILABLE
        offline = [
            node_id
            for node_id in partition.replicas
            if node_id not in reachable or directory_of(partition, node_id) == LOST_DIRECTORY
        ]
        return error, leader, wire.pack_node_lists(self._version, replicas, in_sync, offline)


class MetadataViews:
    """All views of a node's metadata that are in use."""

    __slots__ = ("_lingering", "_now", "_reaches", "_views")

    def __init__(self, now: "Callable[[], float]" = lambda: 0.0) -> None:
        self._now = now
        self._lingering: dict[NodeId, float] = {}
        self._reaches: dict[str, Reach] = {}
        self._views: OrderedDict[tuple[int, int, frozenset[NodeId], frozenset[NodeId]], View] = OrderedDict()

    def reach(self, image: "Image", listener: str) -> Reach:
        reach = self._reaches.get(listener)
        lingering = self._still_lingering() if self._lingering else _NO_NODES
        if reach is None or reach.brokers is not image.brokers or reach.lingering != lingering:
            reach = self._reaches[listener] = Reach(image, listener, lingering)
        return reach

    def image_changed(self, delta: "Delta", image: "Image") -> None:
        """Note newly fenced brokers: they are listed a little longer, although they lead nothing.

        If one response names another leader and omits the old broker, librdkafka drops the leader together with the
        broker, and sends the next request only a second later.
        """
        for node_id in sorted(delta.brokers_changed):
            before, after = delta.before.brokers.get(node_id), image.brokers.get(node_id)
            if after is None or not after.fenced:
                self._lingering.pop(node_id, None)
            elif before is not None and not before.fenced:
                self._lingering[node_id] = self._now() + LINGER_S

    def _still_lingering(self) -> frozenset[NodeId]:
        now = self._now()
        for node_id in [node_id for node_id, until in self._lingering.items() if until <= now]:
            del self._lingering[node_id]
        return frozenset(self._lingering)

    def view(self, image: "Image", reach: Reach, version: int, *, operations: int) -> View:
        """Return the view for clients of this version and listener that request these operations."""
        shape = wire.TOPICS_AS_IN[version]
        if version < wire.OPERATIONS_FROM:
            operations = wire.OPERATIONS_UNKNOWN
        key = shape, operations, reach.reachable, reach.without_listener
        view = self._views.get(key)
        if view is None:
            self._make_room()
            view = self._views[key] = View(shape, operations, reach)
        else:
            self._views.move_to_end(key)
            view.forget_deleted(image)
        return view

    @staticmethod
    def uncached(reach: Reach, version: int, *, operations: int) -> View:
        """Return a view for one client, with operations that few others have."""
        operations = wire.OPERATIONS_UNKNOWN if version < wire.OPERATIONS_FROM else operations
        return View(wire.TOPICS_AS_IN[version], operations, reach)

    def _make_room(self) -> None:
        views = self._views
        while views and (len(views) >= VIEWS_MAX or sum(view.size for view in views.values()) > VIEWS_SIZE_MAX):
            views.popitem(last=False)
