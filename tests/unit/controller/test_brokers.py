from uuid import UUID

from penstock.controller.brokers import Registration, decide_registration
from penstock.controller.topics import NewTopic, decide_create
from penstock.metadata.image import EMPTY
from penstock.metadata.records import BrokerEndpoint, PartitionChangeRecord, RegisterBrokerRecord
from penstock.model.ids import NO_NODE, NodeId, TopicName
from tests.unit.controller.cluster import apply, broker, cluster, directory, rules

END_POINT = BrokerEndpoint(name="PLAINTEXT", host="here", port=9092, security_protocol=0)
TOPIC = TopicName("a")


def registration(node_id: int) -> Registration:
    return Registration(
        node_id=NodeId(node_id),
        incarnation_id=UUID(int=99),
        end_points=(END_POINT,),
        rack="r",
        log_dirs=(directory(node_id),),
    )


def test_the_first_registration_makes_the_broker_live_with_the_offset_as_its_epoch() -> None:
    decision = decide_registration(EMPTY, registration(1))
    assert decision.reply == 0
    (record,) = decision.records
    assert isinstance(record, RegisterBrokerRecord)
    assert (record.broker_epoch, record.fenced, record.rack, record.end_points) == (0, False, "r", (END_POINT,))
    assert [
        (feature.name, feature.min_supported_version, feature.max_supported_version) for feature in record.features
    ] == [
        ("metadata.version", 7, 30),
        ("group.version", 0, 1),
        ("transaction.version", 0, 2),
    ]
    assert [live.node_id for live in apply(EMPTY, decision.records).live_brokers()] == [1]


def test_a_later_process_has_a_higher_epoch() -> None:
    image = apply(EMPTY, decide_registration(EMPTY, registration(1)).records)
    decision = decide_registration(image, registration(1))
    assert decision.reply > image.brokers[NodeId(1)].epoch


def test_a_new_process_leads_its_partitions_in_a_new_epoch() -> None:
    image = cluster(broker(1), broker(2))
    image = apply(image, decide_create(image, [NewTopic(name=TOPIC, partition_count=4)], rules()).records)
    led_before = [partition.leader for partition in image.topics[TOPIC].partitions]
    after = apply(image, decide_registration(image, registration(1)).records)
    for leader, partition in zip(led_before, after.topics[TOPIC].partitions, strict=True):
        assert partition.leader == leader
        assert partition.leader_epoch == (1 if leader == 1 else 0)


def test_a_partition_that_lost_its_leader_is_led_again_by_a_replica_that_was_in_sync() -> None:
    image = cluster(broker(1))
    image = apply(image, decide_create(image, [NewTopic(name=TOPIC)], rules()).records)
    topic = image.topics[TOPIC]
    image = apply(image, [PartitionChangeRecord(partition_id=0, topic_id=topic.id, leader=NO_NODE)])
    after = apply(image, decide_registration(image, registration(1)).records)
    assert after.topics[TOPIC].partitions[0].leader == 1
    assert decide_registration(image, registration(2)).records[1:] == []
