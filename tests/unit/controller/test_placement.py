from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.controller.placement import Replicas, place
from penstock.metadata.records import MetadataRecord
from penstock.model.errors import InvalidReplicationFactor
from tests.unit.controller.cluster import broker, cluster


def placed(*brokers: MetadataRecord, count: int, factor: int, seed: int = 7) -> list[Replicas]:
    image = cluster(*brokers)
    return place(image.brokers.values(), partition_count=count, replication_factor=factor, random=Random(seed))


def test_a_single_broker_holds_all_replicas() -> None:
    assert placed(broker(1), count=3, factor=1) == [(1,), (1,), (1,)]


def test_every_broker_leads_and_follows_equally_often() -> None:
    partitions = placed(*(broker(node_id) for node_id in range(5)), count=50, factor=3)
    assert set(Counter(replicas[0] for replicas in partitions).values()) == {10}
    assert set(Counter(node_id for replicas in partitions for node_id in replicas).values()) == {30}


@pytest.mark.parametrize("size", [1, 2, 3])
def test_racks_of_equal_size_share_leaders_and_replicas_equally(size: int) -> None:
    brokers = [broker(rack * 10 + index, rack=f"rack{rack}") for rack in range(3) for index in range(size)]
    partitions = placed(*brokers, count=18 * size, factor=3)
    assert set(Counter(replicas[0] for replicas in partitions).values()) == {6}
    assert set(Counter(node_id for replicas in partitions for node_id in replicas).values()) == {18}
    assert all(len({node_id // 10 for node_id in replicas}) == 3 for replicas in partitions)


def test_a_small_rack_gets_a_replica_of_every_partition_when_there_are_as_many_racks_as_replicas() -> None:
    brokers = [broker(1, rack="a"), broker(2, rack="a"), broker(3, rack="a"), broker(4, rack="b")]
    assert all(4 in replicas for replicas in placed(*brokers, count=12, factor=2))


def test_the_followers_of_one_leader_change_from_round_to_round() -> None:
    partitions = placed(*(broker(node_id) for node_id in range(6)), count=60, factor=2)
    followers = {replicas[1] for replicas in partitions if replicas[0] == 0}
    assert len(followers) > 2


def test_fenced_brokers_never_lead_and_come_last_within_their_rack() -> None:
    partitions = placed(broker(1), broker(2, fenced=True), broker(3), count=20, factor=2)
    assert all(2 not in replicas for replicas in partitions)
    partitions = placed(broker(1, rack="a"), broker(2, rack="b", fenced=True), count=20, factor=2)
    assert all(replicas == (1, 2) for replicas in partitions)


@pytest.mark.parametrize(
    ("factor", "fenced", "message"),
    [
        (0, False, "Invalid replication factor 0: the replication factor must be positive."),
        (1, True, "All brokers are currently fenced."),
        (3, False, "The target replication factor of 3 cannot be reached because only 2 broker(s) are registered"),
    ],
)
def test_impossible_placements_are_refused(factor: int, fenced: bool, message: str) -> None:
    with pytest.raises(InvalidReplicationFactor) as raised:
        placed(broker(1, fenced=fenced), broker(2, fenced=fenced), count=1, factor=factor)
    assert raised.value.message.startswith(message)


@given(
    racks=st.lists(st.tuples(st.integers(0, 4), st.booleans()), min_size=1, max_size=12),
    count=st.integers(0, 40),
    seed=st.integers(),
    data=st.data(),
)
def test_replicas_differ_and_live_brokers_lead_and_racks_are_used_before_any_is_used_twice(
    racks: list[tuple[int, bool]], count: int, seed: int, data: st.DataObject
) -> None:
    racks[0] = (racks[0][0], False)
    factor = data.draw(st.integers(1, len(racks)))
    brokers = [broker(node_id, rack=str(rack), fenced=fenced) for node_id, (rack, fenced) in enumerate(racks)]
    rack_count = len({rack for rack, _ in racks})
    for replicas in placed(*brokers, count=count, factor=factor, seed=seed):
        assert len(set(replicas)) == factor
        assert not racks[replicas[0]][1]
        assert len({racks[node_id][0] for node_id in replicas}) == min(factor, rack_count)


def test_read_only_brokers_get_replicas_only_if_there_are_too_few_others() -> None:
    brokers = (broker(1, read_only=True), broker(2), broker(3))
    assert all(1 not in replicas for replicas in placed(*brokers, count=12, factor=2))
    assert all(replicas[0] != 1 for replicas in placed(*brokers, count=12, factor=3))
    full = (broker(1, read_only=True), broker(2, read_only=True))
    assert {replicas[0] for replicas in placed(*full, count=4, factor=1)} == {1, 2}
