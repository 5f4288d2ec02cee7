"""Replica placement when a node is drained or replicas are spread evenly. No I/O.

A plan moves as few replicas as possible. A replica goes to the node with the fewest replicas, on a rack that the
partition does not use yet if there is one. The leader stays first in the list of replicas.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from penstock.actions.errors import ActionError


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


def rotated(nodes: tuple[int, ...], count: int) -> tuple[int, ...]:
    """Return the nodes in the same order, but beginning `count` places later."""
    first = count % len(nodes) if nodes else 0
    return (*nodes[first:], *nodes[:first])


def drain(partitions: Iterable[Partition], node: int, racks: Mapping[int, str | None]) -> list[ReplicaMove]:
    """Move every replica off a node. `racks` has an entry for every node that may hold replicas."""
    targets = {other: rack for other, rack in racks.items() if other != node}
    held = list(partitions)
    loads = Counter(dict.fromkeys(targets, 0))
    loads.update(replica for partition in held for replica in partition.replicas if replica in targets)
    moves = []
    for partition in held:
        if node in partition.replicas:
            target = _choose(partition, node, targets, loads)
            loads[target] += 1
            moves.append(_replace(partition, node, target))
    return moves


def spread(partitions: Iterable[Partition], racks: Mapping[int, str | None]) -> list[ReplicaMove]:
    """Spread replicas so that the counts per node differ by at most one."""
    present = {(each.topic, each.partition): each for each in partitions}
    before = dict(present)
    loads = Counter(dict.fromkeys(racks, 0))
    loads.update(replica for each in present.values() for replica in each.replicas if replica in racks)
    while (step := _best_step(present.values(), racks, loads)) is not None:
        partition, source, target = step
        after = _replace(partition, source, target).after
        present[partition.topic, partition.partition] = partition._replace(replicas=after)
        loads[source] -= 1
        loads[target] += 1
    return [
        ReplicaMove(*key, before[key].replicas, each.replicas)
        for key, each in present.items()
        if each.replicas != before[key].replicas
    ]


def _best_step(
    partitions: Collection[Partition], racks: Mapping[int, str | None], loads: Counter[int]
) -> tuple[Partition, int, int] | None:
    """Return the move of one replica from the fullest possible node to the emptiest possible one."""
    by_load = sorted(racks, key=lambda node: (loads[node], node))
    for source in reversed(by_load):
        for target in by_load:
            if loads[source] - loads[target] < 2:
                break
            for partition in partitions:
                if source in partition.replicas and _may_take(partition, source, target, racks):
                    return partition, source, target
    return None


def _may_take(partition: Partition, source: int, target: int, racks: Mapping[int, str | None]) -> bool:
    if target in partition.replicas:
        return False
    others = {racks.get(node) for node in partition.replicas if node != source}
    # Do not put two replicas on one rack, unless the moved replica already shares one.
    return racks[target] is None or racks[target] not in others or racks.get(source) in others


def _choose(partition: Partition, leaving: int, targets: Mapping[int, str | None], loads: Counter[int]) -> int:
    staying = [node for node in partition.replicas if node != leaving]
    used = {targets[node] for node in staying if targets.get(node) is not None}
    free = [node for node in targets if node not in staying]
    if not free:
        raise ActionError(
            f"Cannot move {partition.topic}-{partition.partition} off node {leaving}: it has {len(partition.replicas)} "
            f"replicas, and only {len(targets)} nodes remain. Add a node or lower the replication factor first."
        )
    return min(free, key=lambda node: (targets[node] in used, loads[node], node))


def _replace(partition: Partition, leaving: int, target: int) -> ReplicaMove:
    after = tuple(target if node == leaving else node for node in partition.replicas)
    if partition.replicas[0] == leaving and len(after) > 1:
        # The new replica is empty, so an in-sync one must be the preferred leader.
        after = (*after[1:], target)
    return ReplicaMove(partition.topic, partition.partition, partition.replicas, after)
