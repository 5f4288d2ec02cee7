"""Topics and groups by name, and the offsets and sizes of topics: what pages and changes have in common."""

from typing import Final

from penstock.actions.cluster.log_dirs import describe_log_dirs
from penstock.actions.cluster.offsets import EARLIEST, LATEST, list_offsets
from penstock.actions.errors import UNKNOWN_GROUP, ActionError, unknown_topic
from penstock_console.clusters import ClusterAccess, Topic
from penstock_console.sampler import GroupProgress

DEAD_LETTER_SUFFIX: Final = ".dlq"


def find_topic(access: ClusterAccess, name: str) -> Topic:
    topic = access.metadata().topics.get(name)
    if topic is None:
        # It may have been created since the metadata was read.
        access.changed()
        topic = access.metadata().topics.get(name)
    if topic is None:
        raise unknown_topic(name)
    return topic


def find_group(access: ClusterAccess, name: str) -> GroupProgress:
    group = access.groups().get(name)
    if group is None:
        access.changed()
        group = access.groups().get(name)
    if group is None:
        raise ActionError(f"Group '{name}' does not exist.", code=UNKNOWN_GROUP, about=name)
    return group


def measure(
    access: ClusterAccess, names: list[str]
) -> tuple[dict[tuple[str, int], tuple[int, int]], dict[tuple[str, int], tuple[int, int]]]:
    """Return the earliest and latest offset of each partition, and its size on the leader and on all replicas."""
    if not names:
        return {}, {}
    wanted = set(names)
    with access.open_for(names) as cluster:
        topics = [topic for topic in cluster.topics if topic.name in wanted]
        earliest, latest = list_offsets(cluster, EARLIEST, topics), list_offsets(cluster, LATEST, topics)
        leader = {
            (str(topic.name), int(each.partition_index)): int(each.leader_id)
            for topic in topics
            for each in topic.partitions
        }
        sizes: dict[tuple[str, int], tuple[int, int]] = {}
        for node, _, place, size, _ in describe_log_dirs(cluster, cluster.brokers, topics=topics):
            on_leader, on_all = sizes.get(place, (0, 0))
            sizes[place] = (on_leader + (size if leader.get(place) == node else 0), on_all + size)
    return {place: (earliest[place], latest[place]) for place in latest if place in earliest}, sizes
