"""Metrics that are computed when they are scraped, not counted as events happen.

Most are computed from the metadata image, so that they are right for one broker and for many. Sources of many samples
yield None now and then and work on copies, so that the event loop can run while they are written out. Goes to the
services of the node; declared in metrics/declared.py.
"""

from collections.abc import Callable, Iterable, Iterator
from heapq import nlargest
from typing import TYPE_CHECKING

from penstock import __version__
from penstock.metrics import declared
from penstock.metrics.declared import DECLARED, Declaration
from penstock.metrics.exposition import Sample
from penstock.replication.isr import effective_min_isr
from penstock.server.share_sources import add_share_sources

if TYPE_CHECKING:
    from penstock.handlers.support.context import Context
    from penstock.metadata.image import PartitionImage
    from penstock.metrics.metrics import Metrics
    from penstock.ports.instruments import Instruments
    from penstock.replication.partition import Partition
    from penstock.server.listener import Admission

PARTITIONS_PER_STEP = 500
UNKNOWN = -1


def add_sources(metrics: "Metrics", context: "Context", admission: "Admission", instruments: "Instruments") -> None:
    """Register the metrics of a running node that are computed on a scrape."""
    metrics.hides_names = hides_names(context)
    _add_topics(metrics, context)
    _add_cluster(metrics, context)
    _add_quorum(metrics, context)
    _add_groups(metrics, context)
    add_share_sources(metrics, context)
    _add_storage(metrics, context)
    throttle = context.throttle
    _add(metrics, declared.MUTED, lambda: throttle.muted_count)
    _add(metrics, declared.THROTTLED, lambda: throttle.muted_count_total)
    _add(metrics, declared.THROTTLED_TIME, lambda: throttle.muted_s_total)
    _add(metrics, declared.CONNECTIONS, lambda: admission.open_count)
    _add_process(metrics, context, instruments)


def hides_names(context: "Context") -> bool:
    """Return whether the endpoints, which require no login, reveal no names of topics and groups."""
    chosen = context.settings.text("metrics.names")
    return chosen == "hidden" or (chosen == "auto" and context.authorizer is not None)


def _add(metrics: "Metrics", declaration: Declaration, value: Callable[[], float]) -> None:
    metrics.register(declaration, lambda: [((), value())])


# -- topics and partitions


def _add_topics(metrics: "Metrics", context: "Context") -> None:
    def of_topics(value: str) -> Callable[[], Iterable[Sample | None]]:
        def source() -> Iterator[Sample | None]:
            for topic in list(context.replicas.by_name.values()):
                yield (topic.name,), getattr(topic, value)
                yield None

        return source

    metrics.register(declared.MESSAGES_IN, of_topics("messages_in"))
    metrics.register(declared.BYTES_IN, of_topics("bytes_in"))
    metrics.register(declared.BYTES_OUT, of_topics("bytes_out"))

    def busiest(value: str) -> Callable[[], Iterable[Sample | None]]:
        def source() -> Iterator[Sample | None]:
            led: list[Partition] = []
            for topic in list(context.replicas.by_name.values()):
                partitions = list(topic.partitions.values())
                led += [partition for partition in partitions if partition.bytes_in and partition.is_leader]
                yield None
            count = context.settings.integer("metrics.partitions.max")
            for partition in nlargest(count, led, key=lambda partition: partition.bytes_in):
                yield (partition.topic, str(partition.index)), getattr(partition, value)

        return source

    metrics.register(declared.PARTITION_MESSAGES_IN, busiest("messages_in"))
    metrics.register(declared.PARTITION_BYTES_IN, busiest("bytes_in"))
    _add(metrics, declared.REPLICATION_BYTES_IN, lambda: context.replicas.replication_bytes_in)
    _add(metrics, declared.FAILED_ISR_UPDATES, lambda: context.replicas.isr_changes_refused)

    def sizes() -> Iterator[Sample | None]:
        for topic in list(context.replicas.by_name.values()):
            yield (topic.name,), sum(partition.log.size for partition in list(topic.partitions.values()))
            yield None

    def ends() -> Iterator[Sample | None]:
        for topic in list(context.replicas.by_name.values()):
            if topic.internal:
                continue
            for partition in list(topic.partitions.values()):
                if partition.is_leader:
                    yield (topic.name, str(partition.index)), partition.high_watermark
            yield None

    metrics.register(declared.LOG_SIZE, sizes)
    metrics.register(declared.END_OFFSET, ends)


class _PartitionCounts:
    """Counts of the cluster's partitions by state, taken once for all metrics of one scrape."""

    def __init__(self, context: "Context") -> None:
        self._context = context
        self._offset = UNKNOWN
        self.here = self.led = self.under_replicated = self.under_min_isr = self.at_min_isr = 0
        self.partitions = self.leaderless = self.not_preferred = 0

    def value_of(self, name: str) -> Callable[[], Iterable[Sample | None]]:
        def source() -> Iterator[Sample | None]:
            yield from self._take()
            yield (), getattr(self, name)

        return source

    def _take(self) -> Iterator[None]:
        """Count again if the image has changed."""
        image = self._context.quorum.image
        if image.offset == self._offset:
            return
        counted = _PartitionCounts(self._context)
        for topic in image.topics.values():
            for partition in topic.partitions:
                counted._count(partition, topic.name)
                if counted.partitions % PARTITIONS_PER_STEP == 0:
                    yield None
        counted._offset = image.offset
        self.__dict__.update(counted.__dict__)

    def _count(self, partition: "PartitionImage", topic: str) -> None:
        node_id = self._context.node_id
        self.partitions += 1
        self.leaderless += partition.leader < 0
        self.not_preferred += partition.leader != partition.replicas[0]
        self.here += node_id in partition.replicas
        if partition.leader != node_id:
            return
        self.led += 1
        in_sync = len(partition.isr)
        self.under_replicated += in_sync < len(partition.replicas)
        hosted = self._context.replicas.by_name.get(topic.encode())
        if hosted is not None and hosted.partitions:
            least = next(iter(hosted.partitions.values())).log.settings.min_insync_replicas
            needed = effective_min_isr(least, replica_count=len(partition.replicas))
            self.under_min_isr += in_sync < needed
            # A partition with a single replica would always count, which means nothing.
            self.at_min_isr += in_sync == needed < len(partition.replicas)


def _add_cluster(metrics: "Metrics", context: "Context") -> None:
    partition_counts = _PartitionCounts(context)
    metrics.register(declared.PARTITIONS, partition_counts.value_of("here"))
    metrics.register(declared.LEADERS, partition_counts.value_of("led"))
    metrics.register(declared.UNDER_REPLICATED, partition_counts.value_of("under_replicated"))
    metrics.register(declared.UNDER_MIN_ISR, partition_counts.value_of("under_min_isr"))
    metrics.register(declared.AT_MIN_ISR, partition_counts.value_of("at_min_isr"))
    metrics.register(declared.GLOBAL_PARTITIONS, partition_counts.value_of("partitions"))
    metrics.register(declared.IMBALANCE, partition_counts.value_of("not_preferred"))

    def is_controller() -> bool:
        return context.quorum.leader == context.node_id

    def leaderless() -> Iterator[Sample | None]:
        for sample in partition_counts.value_of("leaderless")():
            # Only the controller reports it: sums over a cluster would otherwise be too high.
            yield ((), 0) if sample is not None and not is_controller() else sample

    def hosted_count() -> int:
        return sum(len(topic.partitions) for topic in context.replicas.by_name.values())

    def offline() -> Iterator[Sample | None]:
        for sample in partition_counts.value_of("here")():
            everything = context.store.failure is not None
            yield None if sample is None else ((), partition_counts.here - (0 if everything else hosted_count()))

    metrics.register(declared.OFFLINE_PARTITIONS, leaderless)
    metrics.register(declared.OFFLINE_REPLICAS, offline)
    _add(metrics, declared.ACTIVE_CONTROLLER, lambda: int(is_controller()))
    _add(metrics, declared.GLOBAL_TOPICS, lambda: len(context.quorum.image.topics))
    _add(metrics, declared.ACTIVE_BROKERS, lambda: sum(1 for _ in context.quorum.image.live_brokers()))
    _add(metrics, declared.FENCED_BROKERS, lambda: sum(one.fenced for one in context.quorum.image.brokers.values()))


def _add_quorum(metrics: "Metrics", context: "Context") -> None:
    quorum = context.quorum

    def state() -> str:
        if quorum.leader is None:
            return "unattached"
        return "leader" if quorum.leader == context.node_id else "follower"

    def fenced() -> int:
        broker = quorum.image.brokers.get(context.node_id)
        return int(broker is None or broker.fenced)

    metrics.register(declared.RAFT_STATE, lambda: [((state(),), 1)])
    _add(metrics, declared.RAFT_LEADER, lambda: UNKNOWN if quorum.leader is None else quorum.leader)
    _add(metrics, declared.RAFT_EPOCH, lambda: quorum.epoch)
    _add(metrics, declared.RAFT_MARK, lambda: quorum.high_watermark)
    _add(metrics, declared.METADATA_OFFSET, lambda: quorum.image.offset)
    _add(metrics, declared.BROKER_FENCED, fenced)


# -- groups


def _add_groups(metrics: "Metrics", context: "Context") -> None:
    def offsets() -> Iterator[Sample | None]:
        for found in context.groups.committed():
            yield None if found is None else ((found[0], found[1], str(found[2])), found[3])

    def lags() -> Iterator[Sample | None]:
        for found in context.groups.committed():
            if found is None:
                yield None
                continue
            group, topic, index, offset = found
            hosted = context.replicas.by_name.get(topic.encode())
            partition = None if hosted is None else hosted.partitions.get(index)
            if partition is not None and partition.is_leader:
                yield (group, topic, str(index)), max(0, partition.high_watermark - offset)

    _add(metrics, declared.GROUPS, lambda: context.groups.count)
    metrics.register(declared.GROUP_OFFSET, offsets)
    metrics.register(declared.GROUP_LAG, lags)


# -- disk and process


def _add_storage(metrics: "Metrics", context: "Context") -> None:
    def space(index: int) -> Callable[[], Iterable[Sample]]:
        def source() -> Iterable[Sample]:
            try:
                return [((), context.disk.space(context.store.folder)[index])]
            except OSError:
                return []

        return source

    _add(metrics, declared.OFFLINE_FOLDERS, lambda: int(context.store.failure is not None))
    _add(metrics, declared.READ_ONLY_FOLDERS, lambda: int(context.store.is_read_only))
    _add(metrics, declared.NEEDED, lambda: context.store.needed_bytes)
    _add(metrics, declared.RESERVED, lambda: context.store.reserved_bytes)
    _add(metrics, declared.READ_FAILURES, lambda: context.store.directory.read_failures)
    metrics.register(declared.FOLDER_SIZE, space(0))
    metrics.register(declared.FOLDER_FREE, space(1))


def _add_process(metrics: "Metrics", context: "Context", instruments: "Instruments") -> None:
    labels = (__version__, str(context.node_id), context.cluster_id)
    metrics.register(declared.BUILD, lambda: [(labels, 1)])
    usage = instruments.network_usage
    if usage is not None:
        _add(metrics, declared.MEMORY_USED, lambda: usage().buffered)
        _add(metrics, declared.MEMORY_LEFT, lambda: max(0, usage().budget - usage().buffered))
        _add(metrics, declared.UNSENT, lambda: usage().unsent)
        _add(metrics, declared.DISK_WAITS, lambda: usage().disk_waits)
        _add(metrics, declared.FAILED_CERTIFICATE_LOADS, lambda: usage().failed_certificate_loads)
        metrics.register(declared.CLOSED, lambda: [((reason,), count) for reason, count in usage().closed.items()])
    process_usage = instruments.process_usage
    if process_usage is not None:
        for name in process_usage():
            _add(metrics, DECLARED[name], lambda name=name: process_usage()[name])  # type: ignore[misc]
