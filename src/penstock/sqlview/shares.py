"""Tables of share groups, share partitions and records in flight."""

from penstock.actions.cluster_client import ClusterClient
from penstock.actions.queues import list_queues, queue_partitions, records_in_flight
from penstock.sqlview.table import Rows


def share_groups(cluster: ClusterClient) -> Rows:
    for queue in list_queues(cluster):
        yield queue.group, queue.state, queue.coordinator, len(queue.members)


def share_partitions(cluster: ClusterClient) -> Rows:
    for queue in list_queues(cluster):
        for each in queue_partitions(cluster, queue):
            holders = sum((each.topic, each.partition) in member.partitions for member in queue.members)
            yield each.group, each.topic, each.partition, each.start_offset, each.lag, holders


def in_flight_records(cluster: ClusterClient) -> Rows:
    yield from records_in_flight(cluster)
