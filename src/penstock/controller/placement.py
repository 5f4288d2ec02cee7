"""The placement of new partitions' replicas on brokers.

Pure, with a random generator as input. In order of precedence: never two replicas of a partition on one
broker, a live broker as leader, replicas spread over racks, then leaders and replicas spread
evenly over brokers, live and writable brokers before fenced and read-only ones. Refuses: InvalidReplicationFactor.

Partitions are placed in rounds of as many as there are live brokers. Within a round, each rack
leads in turn, and a rack yields its brokers from a start that advances with every turn, so that
every broker leads once. Each round shuffles again: otherwise the followers of a broker's
partitions would always be the same few brokers, which would inherit all its leaderships.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import TypeVar

from penstock.metadata.image import BrokerImage
from penstock.model.errors import InvalidReplicationFactor
from penstock.model.ids import NodeId

Replicas = tuple[NodeId, ...]
T = TypeVar("T")


@dataclass(slots=True)
class _Rack:
    live: list[NodeId] = field(default_factory=list)
    last: list[NodeId] = field(default_factory=list)
    """Fenced and read-only brokers."""

    def shuffle(self, random: Random) -> None:
        random.shuffle(self.live)
        random.shuffle(self.last)

    def dealt_from(self, start: int) -> deque[NodeId]:
        """Return all brokers of the rack in the order of use, live ones first."""
        return deque([*_rotated(self.live, start), *_rotated(self.last, start)])


def place(
    brokers: Iterable[BrokerImage], *, partition_count: int, replication_factor: int, random: Random
) -> list[Replicas]:
    """Return the replicas of each new partition, the preferred leader first."""
    racks = _by_rack(brokers)
    broker_count = sum(len(rack.live) + len(rack.last) for rack in racks)
    live_count = sum(len(rack.live) for rack in racks)
    _check(replication_factor, broker_count=broker_count, live_count=live_count)
    leading = [rack for rack in racks if rack.live]
    following = [rack for rack in racks if not rack.live]
    placed: list[Replicas] = []
    for index in range(partition_count):
        turn = index % live_count
        if turn == 0:
            random.shuffle(leading)
            for rack in racks:
                rack.shuffle(random)
        placed.append(_place_one(leading, following, turn=turn, replication_factor=replication_factor))
    return placed


def _place_one(leading: list[_Rack], following: list[_Rack], *, turn: int, replication_factor: int) -> Replicas:
    order = [*_rotated(leading, turn), *following]
    # The start advances once per lap around the racks. Adding the distance from the leading
    # rack prevents a rack from yielding the same broker throughout a lap.
    lap = turn // len(leading)
    hands = [rack.dealt_from(lap + distance) for distance, rack in enumerate(order)]
    replicas: list[NodeId] = []
    distance = 0
    while len(replicas) < replication_factor:
        hand = hands[distance % len(hands)]
        if hand:
            replicas.append(hand.popleft())
        distance += 1
    return tuple(replicas)


def _by_rack(brokers: Iterable[BrokerImage]) -> list[_Rack]:
    brokers = list(brokers)
    # A read-only broker gets replicas only if there are too few others.
    any_writes = any(not broker.read_only and not broker.fenced for broker in brokers)
    racks: dict[str | None, _Rack] = {}
    for broker in sorted(brokers, key=lambda broker: broker.node_id):
        if broker.in_controlled_shutdown and not broker.fenced:
            continue  # It is about to stop and would have to hand over its new replicas.
        rack = racks.setdefault(broker.rack, _Rack())
        is_last = broker.fenced or (broker.read_only and any_writes)
        (rack.last if is_last else rack.live).append(broker.node_id)
    return list(racks.values())


def _check(replication_factor: int, *, broker_count: int, live_count: int) -> None:
    if replication_factor <= 0:
        raise InvalidReplicationFactor(
            f"Invalid replication factor {replication_factor}: the replication factor must be positive."
        )
    if live_count == 0:
        raise InvalidReplicationFactor("All brokers are currently fenced.")
    if replication_factor > broker_count:
        raise InvalidReplicationFactor(
            f"The target replication factor of {replication_factor} cannot be reached because only "
            f"{broker_count} broker(s) are registered or some brokers have all their log directories cordoned."
        )


def _rotated(items: Sequence[T], start: int) -> list[T]:
    if not items:
        return []
    start %= len(items)
    return [*items[start:], *items[:start]]
