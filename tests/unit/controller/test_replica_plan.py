from collections import Counter
from collections.abc import Sequence
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.controller.replica_plan import (
    Location,
    Locations,
    Partition,
    ReplicaMove,
    TooFewNodes,
    drain,
    shared_hosts,
    spread,
)

NO_RACKS = {node: Location() for node in (1, 2, 3, 4)}


def test_replicas_of_a_drained_node_go_to_the_node_with_the_fewest() -> None:
    partitions = [Partition("t", number, (1, 2, 3)) for number in range(3)]
    moves = drain(partitions, [1], NO_RACKS)
    assert [move.after for move in moves] == [(2, 3, 4)] * 3
    assert [move.added for move in moves] == [(4,)] * 3


def test_a_replica_goes_to_a_rack_without_one() -> None:
    racks = {node: Location(rack) for node, rack in enumerate("abbc", 1)}
    (move,) = drain([Partition("t", 0, (1, 2)), Partition("t", 1, (4, 3))], [1], racks)
    assert move.after == (2, 4)


def test_too_few_remaining_nodes_are_reported() -> None:
    with pytest.raises(TooFewNodes, match="Cannot move t-0 off node 1: it has 3 replicas"):
        drain([Partition("t", 0, (1, 2, 3))], [1], {node: Location() for node in (1, 2, 3)})


def test_an_even_cluster_needs_no_moves() -> None:
    assert spread([Partition("t", 0, (1, 2)), Partition("t", 1, (3, 4))], NO_RACKS) == []


replica_sets = st.permutations([1, 2, 3, 4]).flatmap(
    lambda order: st.integers(1, 3).map(lambda count: tuple(order[:count]))
)


@given(st.lists(replica_sets, max_size=12))
def test_spreading_keeps_the_replication_factor(sets: list[tuple[int, ...]]) -> None:
    partitions = [Partition("t", number, replicas) for number, replicas in enumerate(sets)]
    after = {each.partition: each.replicas for each in partitions}
    after |= {move.partition: move.after for move in spread(partitions, NO_RACKS)}
    assert all(len(set(after[each.partition])) == len(each.replicas) for each in partitions)
    loads = Counter(dict.fromkeys(NO_RACKS, 0))
    loads.update(node for replicas in after.values() for node in replicas)
    assert not loads or max(loads.values()) - min(loads.values()) <= 1


@given(st.lists(replica_sets, max_size=12))
def test_a_drained_node_holds_no_replicas(sets: list[tuple[int, ...]]) -> None:
    partitions = [Partition("t", number, replicas) for number, replicas in enumerate(sets)]
    moves = {move.partition: move for move in drain(partitions, [4], NO_RACKS)}
    assert set(moves) == {each.partition for each in partitions if 4 in each.replicas}
    assert all(4 not in move.after and len(set(move.after)) == len(move.before) for move in moves.values())


def machines(*, hosts: int, cores: int) -> Locations:
    return {
        host + 1000 * core: Location(host=f"machine{host}") for host in range(1, hosts + 1) for core in range(cores)
    }


def host_count(nodes: Sequence[int]) -> int:
    return len({node % 1000 for node in nodes})


def applied(partitions: Sequence[Partition], moves: Sequence[ReplicaMove]) -> list[tuple[int, ...]]:
    after = {each.partition: each.replicas for each in partitions} | {move.partition: move.after for move in moves}
    return list(after.values())


def test_a_replica_goes_to_a_host_without_one() -> None:
    (move,) = drain([Partition("t", 0, (1, 2))], [1], machines(hosts=3, cores=2))
    assert move.after in ((2, 3), (2, 1001))
    (move,) = drain([Partition("t", 0, (1, 2, 3))], [1], machines(hosts=3, cores=2))
    assert move.after == (2, 3, 1001)


def test_several_nodes_are_drained_without_moving_a_replica_twice() -> None:
    partitions = [Partition("t", number, (1 + 1000 * (number % 2), 2)) for number in range(6)]
    moves = drain(partitions, [1, 1001], machines(hosts=3, cores=2))
    assert all(move.added[0] % 1000 == 3 for move in moves)
    assert Counter(move.added[0] for move in moves) == {3: 3, 1003: 3}


def test_replicas_that_share_a_host_are_separated_when_another_host_is_added() -> None:
    partitions = [Partition("t", number, (1, 1001)) for number in range(8)]
    assert spread(partitions, machines(hosts=1, cores=2)) == []
    after = applied(partitions, spread(partitions, machines(hosts=2, cores=2)))
    assert all(host_count(replicas) == 2 for replicas in after)
    assert set(Counter(node for replicas in after for node in replicas).values()) == {4}


def test_a_replica_on_a_fenced_node_counts_as_a_replica_on_its_host() -> None:
    locations = {**machines(hosts=2, cores=2), 1001: Location(host="machine1", may_receive=False)}
    partitions = [Partition("t", number, (1001, 2)) for number in range(4)]
    assert {move.after for move in spread(partitions, locations)} == {(1001, 1002)}
    assert all(move.after == (1001, 1002) for move in drain(partitions, [2], locations))


def test_shared_hosts_are_reported_only_if_other_hosts_have_no_replica() -> None:
    assert shared_hosts((1, 1001), machines(hosts=2, cores=2)) == ["machine1"]
    assert shared_hosts((1, 1001, 2), machines(hosts=2, cores=2)) == []
    assert shared_hosts((1, 2), machines(hosts=2, cores=2)) == []
    assert shared_hosts((1, 1001), machines(hosts=1, cores=2)) == []


@st.composite
def clusters(draw: st.DrawFn) -> tuple[list[Partition], dict[int, Location]]:
    """Draw a cluster with hosts on racks, and partitions with any replicas."""
    places = draw(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=2, max_size=7))
    locations = {node: Location(f"r{rack}", f"r{rack}h{host}") for node, (rack, host) in enumerate(places)}
    sets = draw(st.lists(st.lists(st.sampled_from(sorted(locations)), min_size=1, max_size=4, unique=True), max_size=8))
    return [Partition("t", number, tuple(replicas)) for number, replicas in enumerate(sets)], locations


def variety(nodes: Sequence[int], locations: Locations) -> tuple[int, int]:
    return len({locations[node].rack for node in nodes}), len({locations[node].host for node in nodes})


@given(clusters())
def test_after_spreading_no_other_replicas_use_more_racks_or_more_hosts(
    cluster: tuple[list[Partition], dict[int, Location]],
) -> None:
    partitions, locations = cluster
    for replicas in applied(partitions, spread(partitions, locations)):
        best = max(variety(nodes, locations) for nodes in combinations(locations, len(replicas)))
        assert variety(replicas, locations) == best


@given(clusters(), st.data())
def test_no_other_targets_of_a_drain_use_more_racks_or_more_hosts(
    cluster: tuple[list[Partition], dict[int, Location]], data: st.DataObject
) -> None:
    partitions, locations = cluster
    drained = data.draw(st.sampled_from(sorted(locations)))
    remaining = [node for node in locations if node != drained]
    partitions = [each for each in partitions if len(each.replicas) <= len(remaining)]
    for move in drain(partitions, [drained], locations):
        staying = [node for node in move.before if node != drained]
        best = max(variety([*staying, node], locations) for node in remaining if node not in staying)
        assert variety(move.after, locations) == best
        assert drained not in move.after and set(staying) < set(move.after)
