"""Replica placement when nodes are drained or replicas are spread evenly: plans of administrators, not decisions.

As in the placement of new partitions, replicas go to different racks, then to different hosts, then to the nodes with
the fewest replicas. The leader stays first in the list of replicas.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple


class TooFewNodes(Exception):
    """Replicas of a drained node have nowhere to go."""


class Partition(NamedTuple):
    topic: str
    partition: int
    replicas: tuple[int, ...]


class ReplicaMove(NamedTuple):
    topic: str
    partition: int
    before: tuple[int, ...]
    after: tuple[int, ...]

    @property
    def added(self) -> tuple[int, ...]:
        return tuple(node for node in self.after if node not in self.before)


class Location(NamedTuple):
    """Where a node is. Nodes without a rack, and nodes without a host, share none."""

    rack: str | None = None
    host: str | None = None
    may_receive: bool = True
    """Whether replicas may be moved to the node; not if it is fenced."""


Locations = Mapping[int, Location]
"""The locations of all nodes, including those that may not receive replicas."""


def rotated(nodes: tuple[int, ...], count: int) -> tuple[int, ...]:
    """Return the nodes in the same order, but beginning `count` places later."""
    first = count % len(nodes) if nodes else 0
    return (*nodes[first:], *nodes[:first])


def drain(partitions: Iterable[Partition], nodes: Collection[int], locations: Locations) -> list[ReplicaMove]:
    """Move every replica off the nodes."""
    targets = [node for node, location in locations.items() if location.may_receive and node not in nodes]
    held = list(partitions)
    loads = _loads(held, targets)
    moves = []
    for partition in held:
        after = partition
        for node in (each for each in partition.replicas if each in nodes):
            target = _choose(after, node, targets, locations, loads)
            loads[target] += 1
            after = _replace(after, node, target)
        if after != partition:
            moves.append(ReplicaMove(*partition, after.replicas))
    return moves


def spread(partitions: Iterable[Partition], locations: Locations) -> list[ReplicaMove]:
    """Spread each partition over racks and hosts, then all replicas so that the counts per node differ by at most one.

    The counts differ by more if an even spread would put replicas on fewer racks or hosts.
    """
    before = {(each.topic, each.partition): each for each in partitions}
    targets = [node for node, location in locations.items() if location.may_receive]
    loads = _loads(before.values(), targets)
    present = {key: _separate(each, targets, locations, loads) for key, each in before.items()}
    while (step := _best_step(present.values(), targets, locations, loads)) is not None:
        partition, source, target = step
        present[partition.topic, partition.partition] = _replace(partition, source, target)
        loads[source] -= 1
        loads[target] += 1
    return [
        ReplicaMove(*before[key], each.replicas)
        for key, each in present.items()
        if each.replicas != before[key].replicas
    ]


def shared_hosts(nodes: Iterable[int], locations: Locations) -> list[str]:
    """Return the hosts that more than one of the nodes is on, although other hosts have none."""
    used = Counter(location.host for node in nodes if (location := locations.get(node)) is not None)
    if len(used) == len({location.host for location in locations.values()}):
        return []
    return sorted(host for host, count in used.items() if host is not None and count > 1)


def _loads(partitions: Iterable[Partition], targets: Collection[int]) -> Counter[int]:
    loads = Counter(dict.fromkeys(targets, 0))
    loads.update(replica for each in partitions for replica in each.replicas if replica in loads)
    return loads


def _variety(nodes: Collection[int], locations: Locations) -> tuple[int, int]:
    """Return how many racks and how many hosts the nodes are on. More racks are better, then more hosts."""
    racks: set[str | int] = set()
    hosts: set[str | int] = set()
    for node in nodes:
        rack, host, _ = locations.get(node, Location())
        racks.add(node if rack is None else rack)
        hosts.add(node if host is None else host)
    return len(racks), len(hosts)


def _separate(partition: Partition, targets: Collection[int], locations: Locations, loads: Counter[int]) -> Partition:
    """Move replicas that share a rack or a host to others, as long as that is possible."""
    count = len(partition.replicas)
    most_racks, most_hosts = _variety({*targets, *partition.replicas}, locations)
    best = min(count, most_racks), min(count, most_hosts)
    while (current := _variety(partition.replicas, locations)) < best:
        steps = [
            (_variety(_replaced(partition, source, target), locations), position, loads[source] - loads[target], target)
            for position, source in enumerate(partition.replicas)
            for target in targets
            if target not in partition.replicas
        ]
        # Among equal steps, the last replica moves, so that the leader stays, and goes to the emptiest node.
        variety, position, _, target = max(steps, key=lambda step: (*step[:3], -step[3]), default=(current, 0, 0, 0))
        if variety <= current:
            break
        source = partition.replicas[position]
        partition = _replace(partition, source, target)
        loads[source] -= 1
        loads[target] += 1
    return partition


def _best_step(
    partitions: Collection[Partition], targets: Collection[int], locations: Locations, loads: Counter[int]
) -> tuple[Partition, int, int] | None:
    """Return the move of one replica from the fullest possible node to the emptiest possible one."""
    by_load = sorted(targets, key=lambda node: (loads[node], node))
    for source in reversed(by_load):
        for target in by_load:
            if loads[source] - loads[target] < 2:
                break
            for partition in partitions:
                if source in partition.replicas and _may_take(partition, source, target, locations):
                    return partition, source, target
    return None


def _may_take(partition: Partition, source: int, target: int, locations: Locations) -> bool:
    if target in partition.replicas:
        return False
    after = _replaced(partition, source, target)
    return _variety(after, locations) >= _variety(partition.replicas, locations)


def _choose(
    partition: Partition, leaving: int, targets: Collection[int], locations: Locations, loads: Counter[int]
) -> int:
    free = [node for node in targets if node not in partition.replicas]
    if not free:
        raise TooFewNodes(
            f"Cannot move {partition.topic}-{partition.partition} off node {leaving}: it has {len(partition.replicas)} "
            f"replicas, and only {len(targets)} nodes remain. Add a node or lower the replication factor first."
        )

    def rating(node: int) -> tuple[int, int, int, int]:
        racks, hosts = _variety(_replaced(partition, leaving, node), locations)
        return -racks, -hosts, loads[node], node

    return min(free, key=rating)


def _replaced(partition: Partition, leaving: int, target: int) -> tuple[int, ...]:
    return tuple(target if node == leaving else node for node in partition.replicas)


def _replace(partition: Partition, leaving: int, target: int) -> Partition:
    after = _replaced(partition, leaving, target)
    if partition.replicas[0] == leaving and len(after) > 1:
        # The new replica is empty, so an in-sync one must be the preferred leader.
        after = (*after[1:], target)
    return partition._replace(replicas=after)
