"""The rules of docs/internals/controller.md for one partition, one by one; test_invariants.py combines them."""

from dataclasses import replace

import pytest

from penstock.controller.leaders import (
    Election,
    Living,
    change,
    is_unclean,
    settle,
)
from penstock.metadata.image import RECOVERED, RECOVERING, Image, PartitionImage
from penstock.metadata.records import LOST_DIRECTORY, NO_CHANGE, ConfigRecord
from penstock.model.ids import NO_NODE, TopicName
from tests.unit.controller.cluster import (
    LEADER_RULES,
    TOPIC_ID,
    apply,
    broker,
    cluster,
    directory,
    node_ids,
    partition,
    with_partition,
)

ALIVE = cluster(broker(1), broker(2), broker(3), broker(4))


def settled(
    image: Image,
    *,
    isr: tuple[int, ...] | None = None,
    election: Election = Election.ONLINE,
    lost: tuple[int, ...] = (),
) -> PartitionImage:
    before = partition(image)
    wanted = before if isr is None else replace(before, isr=node_ids(*isr))
    return settle(
        wanted,
        before,
        living=Living(image),
        settings=LEADER_RULES.topic(image, TopicName("t")),
        election=election,
        untrusted=node_ids(*lost),
    )


def uncleanly_allowed(image: Image) -> Image:
    option = "unclean.leader.election.enable"
    return apply(image, [ConfigRecord(resource_type=2, resource_name="t", name=option, value="true")])


def test_a_leader_that_can_lead_stays() -> None:
    image = with_partition(ALIVE, leader=2, replicas=(1, 2, 3))
    assert settled(image) == partition(image)


def test_the_first_live_in_sync_replica_takes_over() -> None:
    image = with_partition(cluster(broker(1, fenced=True), broker(2), broker(3)), leader=1, replicas=(1, 3, 2))
    assert settled(image, isr=(2, 3)).leader == 3


@pytest.mark.parametrize("why", ["fenced", "leaving"])
def test_a_fenced_or_leaving_broker_does_not_lead(why: str) -> None:
    away = broker(2, fenced=why == "fenced", leaving=why == "leaving")
    image = with_partition(cluster(broker(1), away, broker(3)), leader=NO_NODE, replicas=(2, 1, 3), isr=(2, 3))
    assert settled(image).leader == 3


def test_a_replica_in_an_offline_directory_does_not_lead() -> None:
    image = with_partition(ALIVE, leader=NO_NODE, replicas=(1, 2), isr=(1, 2))
    before = replace(partition(image), directories=(LOST_DIRECTORY, directory(2)))
    settings = LEADER_RULES.topic(image, TopicName("t"))
    assert settle(before, before, living=Living(image), settings=settings).leader == 2


def test_a_preferred_election_elects_the_first_replica_if_it_can_lead() -> None:
    image = with_partition(ALIVE, leader=2, replicas=(1, 2, 3))
    assert settled(image, election=Election.PREFERRED).leader == 1
    image = with_partition(ALIVE, leader=2, replicas=(1, 2, 3), isr=(2, 3))
    assert settled(image, election=Election.PREFERRED).leader == 2


def test_a_replica_that_leaves_an_isr_below_min_isr_stays_eligible() -> None:
    image = with_partition(ALIVE, leader=1, replicas=(1, 2, 3))
    assert settled(image, isr=(1, 2)).eligible_leader_replicas == ()
    assert settled(image, isr=(1,)).eligible_leader_replicas == node_ids(2, 3)
    assert settled(image, isr=(1,), lost=(2,)).eligible_leader_replicas == node_ids(3)


def test_no_replica_is_eligible_beside_a_large_enough_isr() -> None:
    image = with_partition(ALIVE, leader=1, replicas=(1, 2, 3), isr=(1,), elr=(2,))
    assert settled(image, isr=(1, 3)).eligible_leader_replicas == ()


def test_an_eligible_replica_leads_only_with_an_empty_isr_and_becomes_the_isr() -> None:
    brokers = cluster(broker(1, fenced=True), broker(2), broker(3))
    image = with_partition(brokers, leader=NO_NODE, replicas=(1, 2, 3), isr=(), elr=(1, 2), last_known=(1,))
    now = settled(image)
    assert (now.leader, now.isr, now.eligible_leader_replicas, now.last_known_elr) == (2, (2,), (1,), ())
    assert now.leader_recovery_state == RECOVERED


def test_a_partition_without_a_live_eligible_replica_has_no_leader_and_loses_no_eligibility() -> None:
    brokers = cluster(broker(1, fenced=True), broker(2), broker(3, fenced=True))
    image = with_partition(brokers, leader=1, replicas=(1, 2, 3), isr=(1,), elr=(3,))
    now = settled(image, isr=())
    assert (now.leader, now.isr, now.last_known_elr) == (NO_NODE, (), (1,))
    assert set(now.eligible_leader_replicas) == {1, 3}


def test_an_allowed_unclean_election_elects_any_live_replica() -> None:
    brokers = cluster(broker(1, fenced=True), broker(2), broker(3))
    image = with_partition(brokers, leader=1, replicas=(1, 3, 2), isr=(1,))
    assert settled(image, isr=()).leader == NO_NODE
    for now in (settled(uncleanly_allowed(image), isr=()), settled(image, isr=(), election=Election.UNCLEAN)):
        assert (now.leader, now.isr, now.eligible_leader_replicas) == (3, (3,), ())
        assert now.leader_recovery_state == RECOVERING
        record = change(TOPIC_ID, 0, partition(image), now)
        assert record is not None
        assert is_unclean(partition(image), record)


def test_a_replica_with_lost_data_leads_only_by_request() -> None:
    image = with_partition(ALIVE, leader=NO_NODE, replicas=(1,), isr=())
    lost = replace(partition(image), directories=(LOST_DIRECTORY,))
    for of, election, leader in (
        (uncleanly_allowed(image), Election.ONLINE, NO_NODE),
        (image, Election.UNCLEAN, 1),
    ):
        settings = LEADER_RULES.topic(of, TopicName("t"))
        now = settle(lost, lost, living=Living(of), settings=settings, election=election)
        assert now.leader == leader
    assert now.directories == (directory(1),)


def test_the_last_known_leader_leads_when_neither_isr_nor_elr_is_left() -> None:
    image = with_partition(ALIVE, leader=NO_NODE, replicas=(1, 2, 3), isr=(), last_known=(2,))
    now = settled(image)
    assert (now.leader, now.isr, now.last_known_elr, now.leader_recovery_state) == (2, (2,), (), RECOVERING)
    eligible = with_partition(ALIVE, leader=NO_NODE, replicas=(1, 9), isr=(), elr=(9,), last_known=(1,))
    assert settled(eligible) == partition(eligible)


def test_a_reassignment_completes_when_all_added_replicas_are_in_sync() -> None:
    image = with_partition(ALIVE, leader=1, replicas=(2, 3, 4, 1), isr=(1, 2, 3), adding=(4,), removing=(1,))
    assert settled(image, isr=(1, 2)).removing_replicas == (1,)
    now = settled(image, isr=(1, 2, 4))
    assert (now.replicas, now.isr, now.leader) == ((2, 3, 4), (2, 4), 2)
    assert (now.adding_replicas, now.removing_replicas) == ((), ())
    assert now.directories == (directory(2), directory(3), directory(4))


def test_a_reassignment_waits_while_too_few_remaining_replicas_are_in_sync() -> None:
    image = with_partition(ALIVE, leader=1, replicas=(2, 3, 1), isr=(1, 2), removing=(1,))
    assert settled(image).removing_replicas == (1,)
    assert settled(image, isr=(1, 2, 3)).replicas == (2, 3)


def test_only_a_new_leader_or_fewer_replicas_begin_a_new_leader_epoch() -> None:
    image = with_partition(ALIVE, leader=1, replicas=(1, 2, 3))
    before = partition(image)
    assert change(TOPIC_ID, 0, before, before) is None
    for after, leader in (
        (replace(before, isr=node_ids(1, 2)), NO_CHANGE),
        (replace(before, leader=node_ids(2)[0]), 2),
        (replace(before, replicas=node_ids(1, 2), isr=node_ids(1, 2)), 1),
        (replace(before, replicas=node_ids(1, 2, 3, 4)), NO_CHANGE),
    ):
        record = change(TOPIC_ID, 0, before, after)
        assert record is not None
        assert record.leader == leader
