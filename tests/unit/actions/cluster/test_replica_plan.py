from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.actions.cluster.replica_plan import Partition, drain, spread
from penstock.actions.errors import ActionError

NO_RACKS = {1: None, 2: None, 3: None, 4: None}


def test_replicas_of_a_drained_node_go_to_the_node_with_the_fewest() -> None:
    partitions = [Partition("t", number, (1, 2, 3)) for number in range(3)]
    moves = drain(partitions, 1, NO_RACKS)
    assert [move.after for move in moves] == [(2, 3, 4)] * 3
    assert [move.added for move in moves] == [(4,)] * 3


def test_a_replica_goes_to_a_rack_without_one() -> None:
    racks = {1: "a", 2: "b", 3: "b", 4: "c"}
    (move,) = drain([Partition("t", 0, (1, 2)), Partition("t", 1, (4, 3))], 1, racks)
    assert move.after == (2, 4)


def test_too_few_remaining_nodes_are_reported() -> None:
    with pytest.raises(ActionError, match="Cannot move t-0 off node 1: it has 3 replicas"):
        drain([Partition("t", 0, (1, 2, 3))], 1, {1: None, 2: None, 3: None})


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
    moves = {move.partition: move for move in drain(partitions, 4, NO_RACKS)}
    assert set(moves) == {each.partition for each in partitions if 4 in each.replicas}
    assert all(4 not in move.after and len(set(move.after)) == len(move.before) for move in moves.values())
