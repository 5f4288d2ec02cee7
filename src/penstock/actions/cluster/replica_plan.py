"""Where replicas should go when a node is drained or the load is spread. Pure.

A plan moves as little as it can: a replica leaves only a node that must lose one, and goes to the node with the
fewest replicas on a rack that the partition does not use yet, where there is one. Leaders stay first in their lists.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple


class Partition(NamedTuple):
    topic: str
    number: int
    replicas: tuple[int, ...]


class Move(NamedTuple):
    topic: str
    number: int
    before: tuple[int, ...]
    after: tuple[int, ...]

    @property
    def added(self) -> tuple[int, ...]:
        return tuple(node for node in self.after if node not in self.before)


class TooFewNodes(ValueError):
    """A partition cannot have as many replicas as it has on the nodes that are left."""


def drain(partitions: Iterable[Partition], node: int, racks: Mapping[int, str | None]) -> list[Move]:
    """Move every replica off a node. `racks` names the nodes that may hold replicas, this one or not."""
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


def spread(partitions: Iterable[Partition], racks: Mapping[int, str | None]) -> list[Move]:
    """Even out how many replicas each node holds, to within one."""
    present = {(each.topic, each.number): each for each in partitions}
    before = dict(present)
    loads = Counter(dict.fromkeys(racks, 0))
    loads.update(replica for each in present.values() for replica in each.replicas if replica in racks)
    while (step := _best_step(present.values(), racks, loads)) is not None:
        partition, source, target = step
        after = _replace(partition, source, target).after
        present[partition.topic, partition.number] = partition._replace(replicas=after)
        loads[source] -= 1
        loads[target] += 1
    return [
        Move(*place, before[place].replicas, each.replicas)
        for place, each in present.items()
        if each.replicas != before[place].replicas
    ]


def _best_step(
    partitions: Collection[Partition], racks: Mapping[int, str | None], loads: Counter[int]
) -> tuple[Partition, int, int] | None:
    """One replica from the fullest node that can give one to the emptiest that can take it."""
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
    # Never onto a rack that already holds a copy, unless the copy that leaves shares one too.
    return racks[target] is None or racks[target] not in others or racks.get(source) in others


def _choose(partition: Partition, leaving: int, targets: Mapping[int, str | None], loads: Counter[int]) -> int:
    staying = [node for node in partition.replicas if node != leaving]
    used = {targets[node] for node in staying if targets.get(node) is not None}
    free = [node for node in targets if node not in staying]
    if not free:
        raise TooFewNodes(
            f"{partition.topic}-{partition.number} has {len(partition.replicas)} replicas and only "
            f"{len(targets)} nodes are left: add a node, or lower its replication factor first."
        )
    return min(free, key=lambda node: (targets[node] in used, loads[node], node))


def _replace(partition: Partition, leaving: int, target: int) -> Move:
    after = tuple(target if node == leaving else node for node in partition.replicas)
    if partition.replicas[0] == leaving and len(after) > 1:
        # The new copy is empty at first: one that is in sync leads meanwhile.
        after = (*after[1:], target)
    return Move(partition.topic, partition.number, partition.replicas, after)
