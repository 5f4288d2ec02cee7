"""The placement of new partitions' replicas on brokers.

Pure, with a random generator as input. In order of precedence: never two replicas of a partition on one
broker, a live broker as leader, replicas on different racks, then on different hosts, then leaders and replicas spread
evenly over brokers, live and writable brokers before fenced and read-only ones, and brokers with the same rank on
their hosts before others. Refuses: InvalidReplicationFactor.

Partitions are placed in rounds of as many as there are live brokers. Within a round, each rack
leads in turn, and a rack yields its brokers from a start that advances with every turn, so that
every broker leads once. Each round shuffles again: otherwise the followers of a broker's
partitions would always be the same few brokers, which would inherit all its leaderships.

Brokers of one rank form a column: with several brokers on each host, a broker replicates with its column, so that it
has few peers (docs/internals/placement.md). With one broker on each host, or with one host, columns have no effect.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from random import Random
from typing import Final, TypeVar

from penstock.metadata.image import BrokerImage, Host
from penstock.model.errors import InvalidReplicationFactor
from penstock.model.ids import NodeId
from penstock.model.job import Job

Replicas = tuple[NodeId, ...]
T = TypeVar("T")

PLACED_PER_SLICE: Final = 200


@dataclass(frozen=True, slots=True)
class _Broker:
    node_id: NodeId
    host: int
    rank: int
    """Its position among the brokers of its host, by node id."""


@dataclass(slots=True)
class _Brokers:
    """Brokers of one rack, in columns: the brokers of each rank."""

    members: list[_Broker] = field(default_factory=list)
    columns: dict[int, list[_Broker]] = field(default_factory=dict)

    def shuffle(self, random: Random) -> None:
        random.shuffle(self.members)
        self.columns = {}
        for broker in self.members:
            self.columns.setdefault(broker.rank, []).append(broker)
        self.members = [broker for column in self.columns.values() for broker in column]

    def dealt_from(self, start: int, rank: int | None) -> list[_Broker]:
        """Return all brokers in the order of use: the column of `rank` and then the following ones.

        Without such a column, the order begins with the broker at `start` and its column.
        """
        if not self.members:
            return []
        if rank not in self.columns:
            start %= len(self.members)
            rank = self.members[start].rank
            start -= next(index for index, broker in enumerate(self.members) if broker.rank == rank)
        if len(self.columns) == 1:
            return _rotated(self.members, start)
        columns = list(self.columns)
        first, *others = _rotated(columns, columns.index(rank))
        return [*_rotated(self.columns[first], start), *(broker for each in others for broker in self.columns[each])]


@dataclass(slots=True)
class _Rack:
    live: _Brokers = field(default_factory=_Brokers)
    last: _Brokers = field(default_factory=_Brokers)
    """Fenced and read-only brokers."""

    def shuffle(self, random: Random) -> None:
        self.live.shuffle(random)
        self.last.shuffle(random)

    def dealt_from(self, start: int, rank: int | None) -> list[_Broker]:
        """Return all brokers of the rack in the order of use, live ones first."""
        return [*self.live.dealt_from(start, rank), *self.last.dealt_from(start, rank)]


def placing(
    brokers: Iterable[BrokerImage], *, partition_count: int, replication_factor: int, random: Random
) -> Job[list[Replicas]]:
    """Return the replicas of each new partition, the preferred leader first, in slices."""
    racks = _by_rack(brokers)
    live_count = sum(len(rack.live.members) for rack in racks)
    broker_count = live_count + sum(len(rack.last.members) for rack in racks)
    _check(replication_factor, broker_count=broker_count, live_count=live_count)
    leading = [rack for rack in racks if rack.live.members]
    following = [rack for rack in racks if not rack.live.members]
    placed: list[Replicas] = []
    for index in range(partition_count):
        if index % PLACED_PER_SLICE == PLACED_PER_SLICE - 1:
            yield None
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
    first = order[0].dealt_from(lap, None)
    rank = first[0].rank
    hands = [first, *(rack.dealt_from(lap + distance, rank) for distance, rack in enumerate(order[1:], 1))]
    replicas: list[NodeId] = []
    in_rack = [0] * len(hands)
    on_host: dict[int, int] = {}
    while len(replicas) < replication_factor:
        position, broker = _next(hands, in_rack, on_host)
        hands[position].remove(broker)
        in_rack[position] += 1
        on_host[broker.host] = on_host.get(broker.host, 0) + 1
        replicas.append(broker.node_id)
    return tuple(replicas)


def _next(hands: list[list[_Broker]], in_rack: Sequence[int], on_host: Mapping[int, int]) -> tuple[int, _Broker]:
    """Return the next replica and its rack: on an unused rack, else on the host with the fewest replicas."""
    for position, hand in enumerate(hands):
        if not in_rack[position]:
            # A host with brokers on several racks may be in use already.
            unused = (broker for broker in hand if broker.host not in on_host)
            return position, next(unused, hand[0])
    # Racks with fewer replicas first; sorting is stable, so that the order of the racks decides between equal ones.
    by_replicas = sorted(range(len(hands)), key=in_rack.__getitem__)
    for most in count():
        for position in by_replicas:
            for broker in hands[position]:
                if on_host.get(broker.host, 0) <= most:
                    return position, broker
    raise AssertionError("the replication factor is checked against the number of brokers")


def _by_rack(brokers: Iterable[BrokerImage]) -> list[_Rack]:
    brokers = sorted(brokers, key=lambda broker: broker.node_id)
    # A read-only broker gets replicas only if there are too few others.
    any_writes = any(not broker.read_only and not broker.fenced for broker in brokers)
    racks: dict[str | None, _Rack] = {}
    hosts: dict[Host, int] = {}
    ranks: Counter[int] = Counter()
    for broker in brokers:
        host = hosts.setdefault(broker.host, len(hosts))
        placed = _Broker(broker.node_id, host, ranks[host])
        # A broker that gets no replicas keeps its rank, so that the others keep their columns.
        ranks[host] += 1
        if broker.in_controlled_shutdown and not broker.fenced:
            continue  # It is about to stop and would have to hand over its new replicas.
        rack = racks.setdefault(broker.rack, _Rack())
        is_last = broker.fenced or (broker.read_only and any_writes)
        (rack.last if is_last else rack.live).members.append(placed)
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
