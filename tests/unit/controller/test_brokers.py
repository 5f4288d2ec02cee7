from dataclasses import replace
from random import Random
from unittest import mock
from uuid import UUID

import pytest

from penstock.controller import brokers
from penstock.controller.brokers import (
    Registration,
    check_broker_epoch,
    decide_unregistration,
)
from penstock.controller.leaders import settle
from penstock.metadata.image import EMPTY, Image, PartitionImage, TopicImage
from penstock.metadata.records import (
    LOST_DIRECTORY,
    BrokerEndpoint,
    BrokerFeature,
    ConfigRecord,
    FeatureLevelRecord,
    MetadataRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    TopicRecord,
)
from penstock.model.errors import (
    BrokerIdNotRegistered,
    DuplicateBrokerRegistration,
    InconsistentClusterId,
    InvalidRegistration,
    Refusal,
    StaleBrokerEpoch,
    UnsupportedVersion,
)
from penstock.model.ids import NO_NODE, NodeId
from tests.unit.controller.cluster import (
    LEADER_RULES,
    apply,
    broker,
    cluster,
    decide_fencing,
    decide_registration,
    directory,
    node_ids,
    partition,
    with_partition,
)

END_POINT = BrokerEndpoint(name="PLAINTEXT", host="here", port=9092, security_protocol=0)
THREE = cluster(broker(1), broker(2), broker(3))


def registration(node_id: int, *, previous: int = -1, log_dir: UUID | None = None) -> Registration:
    return Registration(
        node_id=NodeId(node_id),
        cluster_id="c",
        incarnation_id=UUID(int=99),
        end_points=(END_POINT,),
        rack="r",
        log_dirs=(log_dir or directory(node_id),),
        previous_broker_epoch=previous,
    )


def registered(image: Image, request: Registration) -> Image:
    decision = decide_registration(image, request, cluster_id="c", rules=LEADER_RULES, has_live_process=False)
    return apply(image, decision.records)


def assert_refused(image: Image, request: Registration, refusal: type[Refusal], *, lives: bool = False) -> None:
    with pytest.raises(refusal):
        decide_registration(image, request, cluster_id="c", rules=LEADER_RULES, has_live_process=lives)


def test_a_new_broker_is_fenced_and_its_epoch_is_the_offset_of_its_registration() -> None:
    decision = decide_registration(EMPTY, registration(1), cluster_id="c", rules=LEADER_RULES, has_live_process=False)
    (record,) = decision.records
    assert isinstance(record, RegisterBrokerRecord)
    assert (decision.reply, record.broker_epoch, record.fenced, record.rack) == (0, 0, True, "r")
    assert record.end_points == (END_POINT,)


def test_the_epoch_is_the_offset_even_after_other_records_of_the_batch() -> None:
    image = with_partition(THREE, leader=1, replicas=(1, 2, 3))
    after = registered(image, registration(1))
    assert after.brokers[NodeId(1)].epoch == after.offset == image.offset + 2


def test_the_same_process_amends_its_registration_and_keeps_its_epoch() -> None:
    request = replace(registration(1), incarnation_id=THREE.brokers[NodeId(1)].incarnation_id)
    after = registered(THREE, request)
    assert after.brokers[NodeId(1)].epoch == THREE.brokers[NodeId(1)].epoch
    assert not after.brokers[NodeId(1)].fenced
    assert after.brokers[NodeId(1)].rack == "r"


def test_a_registration_is_refused_while_another_process_with_the_id_is_alive() -> None:
    assert_refused(THREE, registration(1), DuplicateBrokerRegistration, lives=True)


def test_a_process_of_another_cluster_is_refused() -> None:
    assert_refused(THREE, replace(registration(1), cluster_id="other"), InconsistentClusterId)


@pytest.mark.parametrize("log_dirs", [(), (UUID(int=2),), (directory(1), directory(1)), (directory(2),)])
def test_directories_must_be_present_and_unique(log_dirs: tuple[UUID, ...]) -> None:
    assert_refused(THREE, replace(registration(1), log_dirs=log_dirs), InvalidRegistration)


def test_a_broker_must_support_the_features_of_the_cluster() -> None:
    image = apply(THREE, [FeatureLevelRecord(name="f", feature_level=3)])
    assert_refused(image, registration(4), UnsupportedVersion)
    feature = BrokerFeature(name="f", min_supported_version=1, max_supported_version=3)
    assert registered(image, replace(registration(4), features=(feature,))).brokers[NodeId(4)].fenced


def test_a_new_process_leads_nothing_and_is_in_no_isr() -> None:
    image = with_partition(THREE, leader=1, replicas=(1, 2, 3))
    now = partition(registered(image, registration(1, previous=1)))
    assert (now.leader, now.leader_epoch, now.isr) == (2, 1, node_ids(2, 3))
    assert now.eligible_leader_replicas == ()


@pytest.mark.parametrize(("mode", "eligible"), [("fsync", (2,)), ("os", ())])
def test_an_unclean_stop_removes_eligibility_if_data_may_not_be_on_disk(mode: str, eligible: tuple[int, ...]) -> None:
    image = apply(
        with_partition(THREE, leader=1, replicas=(1, 2, 3), isr=(1, 2)),
        [ConfigRecord(resource_type=2, resource_name="t", name="flush.mode", value=mode)],
    )
    now = partition(registered(image, registration(2)))
    assert (now.leader, now.isr, now.eligible_leader_replicas) == (1, node_ids(1), node_ids(*eligible))
    clean = partition(registered(image, registration(2, previous=2)))
    assert clean.eligible_leader_replicas == node_ids(2)


def test_the_last_leader_is_recorded_when_all_replicas_have_stopped_uncleanly() -> None:
    image = apply(
        with_partition(THREE, leader=1, replicas=(1, 2), isr=(1,)),
        [ConfigRecord(resource_type=2, resource_name="t", name="flush.mode", value="os")],
    )
    now = partition(registered(image, registration(1)))
    assert (now.leader, now.isr, now.eligible_leader_replicas, now.last_known_elr) == (NO_NODE, (), (), node_ids(1))


def test_a_replica_whose_directory_is_missing_is_lost() -> None:
    image = with_partition(THREE, leader=1, replicas=(1, 2, 3), isr=(1,), elr=(2,))
    fresh = UUID(int=777)
    now = partition(registered(image, registration(2, previous=2, log_dir=fresh)))
    assert now.directories == (directory(1), LOST_DIRECTORY, directory(3))
    assert (now.isr, now.eligible_leader_replicas) == (node_ids(1), ())
    now = partition(registered(image, registration(1, previous=1, log_dir=fresh)))
    assert (now.leader, now.isr, now.eligible_leader_replicas, now.last_known_elr) == (2, node_ids(2), (), ())


def test_a_lost_replica_cannot_lead() -> None:
    image = with_partition(THREE, leader=1, replicas=(1,))
    now = partition(registered(image, registration(1, previous=1, log_dir=UUID(int=777))))
    assert (now.leader, now.isr, now.eligible_leader_replicas, now.last_known_elr) == (NO_NODE, (), (), ())


def test_a_fenced_broker_leaves_every_isr_in_one_batch_with_the_new_leaders() -> None:
    image = with_partition(THREE, leader=1, replicas=(1, 2, 3))
    decision = decide_fencing(image, NodeId(1), epoch=1, rules=LEADER_RULES)
    after = apply(image, decision.records)
    assert decision.reply
    assert after.brokers[NodeId(1)].fenced
    assert (partition(after).leader, partition(after).isr) == (2, node_ids(2, 3))
    assert not decide_fencing(after, NodeId(1), epoch=1, rules=LEADER_RULES).reply


def with_many(image: Image, random: Random, *, topics: int = 5, each: int = 200) -> Image:
    """Return the image with many partitions in few states, and with epochs of their own."""
    records: list[MetadataRecord] = []
    for number in range(topics):
        topic_id = UUID(int=1000 + number)
        records.append(TopicRecord(name=f"many-{number}", topic_id=topic_id))
        if number == 1:
            change = ConfigRecord(
                resource_type=2, resource_name=f"many-{number}", name="min.insync.replicas", value="2"
            )
            records.append(change)
        for index in range(each):
            replicas = tuple(random.sample((1, 2, 3), random.choice((1, 3))))
            isr = replicas[: random.choice((1, len(replicas)))]
            records.append(
                PartitionRecord(
                    partition_id=index,
                    topic_id=topic_id,
                    replicas=replicas,
                    isr=isr,
                    leader=random.choice((isr[0], NO_NODE)),
                    leader_epoch=random.randrange(100),
                    partition_epoch=random.randrange(100),
                    directories=tuple(directory(node_id) for node_id in replicas),
                )
            )
    return apply(image, records)


@pytest.mark.parametrize("seed", range(3))
def test_partitions_in_the_same_state_take_one_decision_with_the_same_outcome_as_alone(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    image = with_many(THREE, Random(seed))
    settled = mock.Mock(side_effect=settle)
    monkeypatch.setattr(brokers, "settle", settled)
    together = brokers.remove_from_isrs(image, NodeId(1), LEADER_RULES)
    assert len(together) > 300
    assert settled.call_count < 100
    alone = [
        record
        for topic in image.topics.values()
        for index, each in enumerate(topic.partitions)
        for record in brokers.remove_from_isrs(only(image, topic, index, each), NodeId(1), LEADER_RULES)
    ]
    assert [
        replace(record, partition_id=0) for record in together if isinstance(record, PartitionChangeRecord)
    ] == alone


def only(image: Image, topic: TopicImage, index: int, partition: PartitionImage) -> Image:
    """Return the image with one partition only, as number 0 of its topic."""
    alone = replace(topic, partitions=(partition,))
    return replace(image, topics={topic.name: alone}, topics_by_id={topic.id: alone})


def test_only_the_process_with_the_given_epoch_is_fenced() -> None:
    assert not decide_fencing(THREE, NodeId(1), epoch=0, rules=LEADER_RULES).records
    assert not decide_fencing(THREE, NodeId(9), epoch=0, rules=LEADER_RULES).records


def test_an_unregistered_broker_keeps_data_that_only_it_has() -> None:
    image = with_partition(THREE, leader=1, replicas=(1,))
    after = apply(image, decide_unregistration(image, NodeId(1), LEADER_RULES).records)
    assert NodeId(1) not in after.brokers
    assert (partition(after).leader, partition(after).eligible_leader_replicas) == (NO_NODE, node_ids(1))
    with pytest.raises(BrokerIdNotRegistered):
        decide_unregistration(after, NodeId(1), LEADER_RULES)


def test_only_the_registered_epoch_is_accepted() -> None:
    assert check_broker_epoch(THREE, NodeId(1), 1).node_id == 1
    for node_id, epoch in ((1, 0), (1, 2), (9, 1)):
        with pytest.raises(StaleBrokerEpoch):
            check_broker_epoch(THREE, NodeId(node_id), epoch)
