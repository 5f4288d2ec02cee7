from collections import Counter
from collections.abc import Sequence
from itertools import combinations
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.controller.placement import Replicas, placing
from penstock.metadata.records import MetadataRecord
from penstock.model.errors import InvalidReplicationFactor
from penstock.model.job import finish
from tests.unit.controller.cluster import broker, cluster

CORES_ON_HOST = 1000


def placed(*brokers: MetadataRecord, count: int, factor: int, seed: int = 7) -> list[Replicas]:
    image = cluster(*brokers)
    return finish(
        placing(image.brokers.values(), partition_count=count, replication_factor=factor, random=Random(seed))
    )


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


def machines(*, hosts: int, cores: int, racks: int = 0) -> list[MetadataRecord]:
    """Return brokers with the ids of machines: core c of machine m is broker m + 1000 c."""
    return [
        broker(host + CORES_ON_HOST * core, host=f"machine{host}", rack=f"rack{(host - 1) % racks}" if racks else None)
        for host in range(1, hosts + 1)
        for core in range(cores)
    ]


@pytest.mark.parametrize(("hosts", "cores", "racks"), [(3, 4, 0), (5, 2, 0), (3, 4, 3), (6, 3, 3), (4, 3, 2)])
def test_machines_of_equal_size_share_leaders_and_replicas_equally(hosts: int, cores: int, racks: int) -> None:
    partitions = placed(*machines(hosts=hosts, cores=cores, racks=racks), count=6 * hosts * cores, factor=3)
    assert set(Counter(replicas[0] for replicas in partitions).values()) == {6}
    held = Counter(node_id for replicas in partitions for node_id in replicas)
    assert max(held.values()) - min(held.values()) <= 6
    assert all(len({node_id % CORES_ON_HOST for node_id in replicas}) == 3 for replicas in partitions)


@pytest.mark.parametrize(("hosts", "racks"), [(3, 0), (3, 3), (6, 3), (5, 0)])
def test_a_core_replicates_with_the_same_core_of_other_machines(hosts: int, racks: int) -> None:
    for replicas in placed(*machines(hosts=hosts, cores=4, racks=racks), count=200, factor=3):
        assert len({node_id // CORES_ON_HOST for node_id in replicas}) == 1


def test_a_core_that_is_down_does_not_change_the_partners_of_the_others() -> None:
    brokers = [*machines(hosts=3, cores=3)[1:], broker(1, host="machine1", leaving=True)]
    for replicas in placed(*brokers, count=80, factor=2):
        assert len({node_id // CORES_ON_HOST for node_id in replicas}) == 1


def test_on_one_host_every_broker_may_replicate_with_every_other() -> None:
    partitions = placed(*machines(hosts=1, cores=4), count=120, factor=2)
    assert set(Counter(replicas[0] for replicas in partitions).values()) == {30}
    assert len({frozenset(replicas) for replicas in partitions}) == 6


def test_a_host_that_is_down_gets_replicas_before_another_host_gets_two() -> None:
    brokers = machines(hosts=2, cores=2)
    down = [broker(3 + CORES_ON_HOST * core, host="machine3", fenced=True) for core in range(2)]
    for replicas in placed(*brokers, *down, count=40, factor=3):
        assert {node_id % CORES_ON_HOST for node_id in replicas} == {1, 2, 3}
        assert replicas[2] % CORES_ON_HOST == 3


def test_more_replicas_than_hosts_are_spread_evenly_over_the_hosts() -> None:
    for replicas in placed(*machines(hosts=3, cores=4), count=60, factor=5):
        assert sorted(Counter(node_id % CORES_ON_HOST for node_id in replicas).values()) == [1, 2, 2]


@given(
    locations=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2), st.booleans()), min_size=1, max_size=8),
    seed=st.integers(),
    data=st.data(),
)
def test_no_other_choice_of_brokers_uses_more_racks_or_more_hosts(
    locations: list[tuple[int, int, bool]], seed: int, data: st.DataObject
) -> None:
    locations[0] = (*locations[0][:2], False)
    factor = data.draw(st.integers(1, len(locations)))
    brokers = [
        broker(node_id, rack=str(rack), host=f"{rack}-{host}", fenced=fenced)
        for node_id, (rack, host, fenced) in enumerate(locations)
    ]

    def spread(nodes: Sequence[int]) -> tuple[int, int]:
        return len({locations[node][0] for node in nodes}), len({locations[node][:2] for node in nodes})

    best = max(
        spread(nodes)
        for nodes in combinations(range(len(locations)), factor)
        if not all(locations[node][2] for node in nodes)
    )
    for replicas in placed(*brokers, count=20, factor=factor, seed=seed):
        assert spread(replicas) == best
        assert len(set(replicas)) == factor
        assert not locations[replicas[0]][2]
