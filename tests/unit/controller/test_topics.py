from dataclasses import replace
from random import Random
from typing import Any, NoReturn
from uuid import UUID

import pytest

from penstock.controller.decision import ControllerDecision
from penstock.controller.topics import (
    PARTITIONS_PER_REQUEST_MAX,
    CreatedTopic,
    MorePartitions,
    NewTopic,
    RefusedTopic,
    TopicReference,
    decide_delete,
    deciding_add_partitions,
    deciding_create,
)
from penstock.metadata.image import Image
from penstock.metadata.records import (
    UNASSIGNED_DIRECTORY,
    ConfigRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from penstock.model.errors import PolicyViolation, Refusal
from penstock.model.ids import PartitionIndex, TopicName
from penstock.model.job import Job, finish
from tests.unit.controller.cluster import apply, broker, cluster, directory, node_ids, rules

ONE = cluster()
A = TopicName("a")
ID = UUID(int=77)
SLICE_MAX = 500
"""How many partitions a decision may place, check or record between two pauses."""


def create_all(*arguments: Any, **keywords: Any) -> ControllerDecision[tuple[CreatedTopic | RefusedTopic, ...]]:
    return finish(deciding_create(*arguments, **keywords))


def add_partitions(*arguments: Any, **keywords: Any) -> ControllerDecision[tuple[Refusal | None, ...]]:
    return finish(deciding_add_partitions(*arguments, **keywords))


def with_topic(image: Image, name: str, *, partition_count: int = 1, replication_factor: int = 1) -> Image:
    topic = NewTopic(name=TopicName(name), partition_count=partition_count, replication_factor=replication_factor)
    return apply(image, create_all(image, [topic], rules(first_id=len(image.topics) + 1)).records)


def refusal(image: Image, topic: NewTopic) -> tuple[int, str]:
    decision = create_all(image, [topic], rules())
    assert not decision.records
    outcome = decision.reply[0]
    assert isinstance(outcome, RefusedTopic)
    return outcome.refusal.code, outcome.refusal.message


def manual(*assignments: tuple[int, tuple[int, ...]], count: int = -1, factor: int = -1) -> NewTopic:
    return NewTopic(
        name=A,
        partition_count=count,
        replication_factor=factor,
        assignments=tuple((PartitionIndex(index), node_ids(*replicas)) for index, replicas in assignments),
    )


def test_a_topic_is_written_as_topic_config_and_partition_records_in_this_order() -> None:
    topic = NewTopic(name=A, partition_count=2, configs=(("retention.ms", "5"), ("cleanup.policy", "compact")))
    decision = create_all(ONE, [topic], rules())
    topic_id = UUID(int=1)
    assert decision.records[:3] == [
        TopicRecord(name="a", topic_id=topic_id),
        ConfigRecord(resource_type=2, resource_name="a", name="retention.ms", value="5"),
        ConfigRecord(resource_type=2, resource_name="a", name="cleanup.policy", value="compact"),
    ]
    assert decision.records[3:] == [
        PartitionRecord(
            partition_id=index,
            topic_id=topic_id,
            replicas=(1,),
            isr=(1,),
            leader=1,
            leader_epoch=0,
            partition_epoch=0,
            directories=(directory(1),),
        )
        for index in (0, 1)
    ]
    assert decision.reply == (
        CreatedTopic(
            name=A,
            id=topic_id,
            partition_count=2,
            replication_factor=1,
            configs={"retention.ms": "5", "cleanup.policy": "compact"},
        ),
    )


def test_minus_one_means_the_defaults_of_the_broker() -> None:
    image = cluster(broker(1), broker(2))
    decision = create_all(image, [NewTopic(name=A)], rules(partition_count=3, replication_factor=2))
    outcome = decision.reply[0]
    assert isinstance(outcome, CreatedTopic)
    assert (outcome.partition_count, outcome.replication_factor) == (3, 2)


def test_validate_only_gives_the_same_outcomes_without_records() -> None:
    decision = create_all(ONE, [NewTopic(name=A)], rules(), validate_only=True)
    assert not decision.records
    assert isinstance(decision.reply[0], CreatedTopic)


def test_a_refused_topic_does_not_affect_the_next_one() -> None:
    decision = create_all(ONE, [NewTopic(name=TopicName("bad name")), NewTopic(name=A)], rules())
    assert isinstance(decision.reply[0], RefusedTopic)
    assert isinstance(decision.reply[1], CreatedTopic)
    assert [record for record in decision.records if isinstance(record, TopicRecord)] == [
        TopicRecord(name="a", topic_id=UUID(int=1))
    ]


@pytest.mark.parametrize(
    ("topic", "code", "message"),
    [
        (NewTopic(name=TopicName("")), 17, "Topic name is invalid: the empty string is not allowed"),
        (NewTopic(name=TopicName("..")), 17, "Topic name is invalid: '..' is not allowed"),
        (
            NewTopic(name=TopicName("x y")),
            17,
            "Topic name is invalid: 'x y' contains one or more characters other than ASCII alphanumerics, "
            "'.', '_' and '-'",
        ),
        (
            NewTopic(name=TopicName("__cluster_metadata")),
            42,
            "Creation of internal topic __cluster_metadata is prohibited.",
        ),
        (
            NewTopic(name=A, replication_factor=2),
            38,
            "Unable to replicate the partition 2 time(s): The target replication factor of 2 cannot be reached "
            "because only 1 broker(s) are registered or some brokers have all their log directories cordoned.",
        ),
        (
            NewTopic(name=A, partition_count=0, replication_factor=0),
            38,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        ),
        (
            NewTopic(name=A, replication_factor=-2),
            38,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        ),
        (NewTopic(name=A, partition_count=0), 37, "Number of partitions was set to an invalid non-positive value."),
        (NewTopic(name=A, partition_count=-2), 37, "Number of partitions was set to an invalid non-positive value."),
        (
            manual((0, (1,)), count=1),
            42,
            "A manual partition assignment was specified, but numPartitions was not set to -1.",
        ),
        (
            manual((0, (1,)), factor=1),
            42,
            "A manual partition assignment was specified, but replication factor was not set to -1.",
        ),
        (
            manual((0, (1, 2))),
            39,
            "The manual partition assignment includes broker 2, but no such broker is registered.",
        ),
        (manual((0, (1, 1))), 39, "The manual partition assignment includes the broker 1 more than once."),
        (manual((1, (1,))), 39, "partitions should be a consecutive 0-based integer sequence"),
        (manual((0, (1,)), (0, (1,))), 39, "Found multiple manual partition assignments for partition 0"),
        (manual((0, ())), 39, "The manual partition assignment includes an empty replica list."),
        (NewTopic(name=A, configs=(("nope", "1"),)), 40, "Unknown topic config name: nope"),
        (
            NewTopic(name=A, configs=(("retention.ms", None), ("segment.ms", None))),
            40,
            "Null value not supported for topic configs: retention.ms,segment.ms",
        ),
        (
            NewTopic(name=A, configs=(("retention.ms", "abc"),)),
            40,
            "Invalid value abc for configuration retention.ms: Not a number of type LONG",
        ),
    ],
)
def test_invalid_topics_are_refused_with_kafkas_messages(topic: NewTopic, code: int, message: str) -> None:
    assert refusal(ONE, topic) == (code, message)


def test_a_topic_that_exists_is_refused() -> None:
    assert refusal(with_topic(ONE, "a"), NewTopic(name=A)) == (36, "Topic 'a' already exists.")


def test_a_name_that_metrics_would_confuse_with_another_is_refused() -> None:
    image = with_topic(ONE, "a.b_c")
    assert refusal(image, NewTopic(name=TopicName("a_b.c"))) == (
        17,
        "Topic 'a_b.c' collides with existing topic: a.b_c",
    )


@pytest.mark.parametrize("name", ["a.b", "a.b.c.d.e.f", "a.b_c.d_e.f_g.h", "..a__"])
def test_names_collide_if_they_differ_only_in_dots_and_underscores(name: str) -> None:
    other = name.translate(str.maketrans("._", "_."))
    _, message = refusal(with_topic(ONE, name), NewTopic(name=TopicName(other)))
    assert message == f"Topic '{other}' collides with existing topic: {name}"


def test_a_new_topic_does_not_visit_the_existing_ones() -> None:
    class Topics(dict[TopicName, Any]):
        def __iter__(self) -> NoReturn:
            raise AssertionError("all topics are visited")

    image = with_topic(ONE, "a.b")
    decision = create_all(replace(image, topics=Topics(image.topics)), [NewTopic(name=TopicName("a.c_d"))], rules())
    assert isinstance(decision.reply[0], CreatedTopic)


def test_partitions_of_one_assignment_must_agree_on_their_number_of_replicas() -> None:
    image = cluster(broker(1), broker(2))
    code, message = refusal(image, manual((0, (1, 2)), (1, (1,))))
    assert code == 39
    assert message.endswith("with previous partitions, which have 2 replica(s).")


def test_the_first_live_replica_of_an_assignment_leads_and_fenced_ones_are_not_in_sync() -> None:
    image = cluster(broker(1, fenced=True), broker(2), broker(3))
    decision = create_all(image, [manual((0, (1, 3, 2)))], rules())
    partition = decision.records[-1]
    assert isinstance(partition, PartitionRecord)
    assert (partition.replicas, partition.isr, partition.leader) == ((1, 3, 2), (3, 2), 3)


def test_an_assignment_to_brokers_that_cannot_serve_is_refused() -> None:
    image = cluster(broker(1), broker(2, fenced=True), broker(3, leaving=True))
    assert refusal(image, manual((0, (2, 3)))) == (
        39,
        "All brokers specified in the manual partition assignment for partition 0 are fenced "
        "or in controlled shutdown.",
    )


def test_a_cluster_of_fenced_brokers_refuses_topics() -> None:
    image = cluster(broker(1, fenced=True))
    assert refusal(image, NewTopic(name=A)) == (
        38,
        "Unable to replicate the partition 1 time(s): All brokers are currently fenced.",
    )


def test_a_broker_with_several_directories_chooses_one_itself() -> None:
    several = RegisterBrokerRecord(
        broker_id=1, incarnation_id=ID, broker_epoch=1, end_points=(), fenced=False, log_dirs=(ID, UUID(int=78))
    )
    partition = create_all(cluster(several), [NewTopic(name=A)], rules()).records[-1]
    assert isinstance(partition, PartitionRecord)
    assert partition.directories == (UNASSIGNED_DIRECTORY,)


@pytest.mark.parametrize(
    "topics",
    [
        [NewTopic(name=A, partition_count=PARTITIONS_PER_REQUEST_MAX + 1)],
        [NewTopic(name=A, partition_count=PARTITIONS_PER_REQUEST_MAX), NewTopic(name=TopicName("b"))],
        [NewTopic(name=A, partition_count=2**31 - 1), NewTopic(name=TopicName("b"), partition_count=-7)],
    ],
)
def test_a_request_with_too_many_partitions_is_refused_as_a_whole(topics: list[NewTopic]) -> None:
    with pytest.raises(PolicyViolation, match="Excessively large number of partitions per request"):
        create_all(ONE, topics, rules())


def test_a_topic_is_deleted_by_its_name_or_by_its_id() -> None:
    image = with_topic(with_topic(ONE, "a"), "b")
    topic_a, topic_b = image.topics[A], image.topics[TopicName("b")]
    decision = decide_delete(image, [TopicReference(name=A), TopicReference(id=topic_b.id)])
    assert decision.records == [RemoveTopicRecord(topic_id=topic_a.id), RemoveTopicRecord(topic_id=topic_b.id)]
    assert [(outcome.name, outcome.id, outcome.refusal) for outcome in decision.reply] == [
        ("a", topic_a.id, None),
        ("b", topic_b.id, None),
    ]


def deletion_refusals(image: Image, *references: TopicReference) -> list[tuple[str | None, UUID | None, int, str]]:
    decision = decide_delete(image, references)
    assert not decision.records
    assert all(outcome.refusal is not None for outcome in decision.reply)
    return [
        (outcome.name, outcome.id, outcome.refusal.code, outcome.refusal.message)
        for outcome in decision.reply
        if outcome.refusal is not None
    ]


def test_references_to_unknown_topics_are_refused() -> None:
    assert deletion_refusals(ONE, TopicReference(name=A), TopicReference(id=ID), TopicReference()) == [
        ("a", None, 3, "This server does not host this topic-partition."),
        (None, ID, 100, "This server does not host this topic ID."),
        (None, None, 42, "Neither topic name nor id were specified."),
    ]


def test_a_topic_with_two_references_is_kept() -> None:
    image = with_topic(ONE, "a")
    topic_id = image.topics[A].id
    by_name, by_id = TopicReference(name=A), TopicReference(id=topic_id)
    assert deletion_refusals(image, by_name, by_name) == [("a", None, 42, "Duplicate topic name.")]
    assert deletion_refusals(image, by_id, by_id) == [(None, topic_id, 42, "Duplicate topic id.")]
    assert deletion_refusals(image, by_id, by_name) == [
        ("a", topic_id, 42, "The provided topic name maps to an ID that was already supplied.")
    ]
    assert deletion_refusals(image, TopicReference(name=A, id=topic_id)) == [
        ("a", topic_id, 42, "You may not specify both topic name and topic id.")
    ]


def added(image: Image, *topics: MorePartitions, validate_only: bool = False) -> list[PartitionRecord | Refusal | None]:
    decision = add_partitions(image, topics, random=Random(7), validate_only=validate_only)
    records = [record for record in decision.records if isinstance(record, PartitionRecord)]
    return [*records, *decision.reply]


def test_new_partitions_follow_the_existing_ones() -> None:
    image = with_topic(ONE, "a", partition_count=2)
    decision = add_partitions(image, [MorePartitions(name=A, count=4)], random=Random(7))
    assert decision.reply == (None,)
    assert [
        (record.partition_id, record.replicas, record.leader)
        for record in decision.records
        if isinstance(record, PartitionRecord)
    ] == [(2, (1,), 1), (3, (1,), 1)]
    assert len(apply(image, decision.records).topics[A].partitions) == 4


def test_new_partitions_can_be_assigned_by_hand() -> None:
    image = with_topic(cluster(broker(1), broker(2)), "a", replication_factor=2)
    more = MorePartitions(name=A, count=2, assignments=(node_ids(2, 1),))
    record, outcome = added(image, more)
    assert isinstance(record, PartitionRecord)
    assert record.replicas == (2, 1)
    assert outcome is None
    assert added(image, more, validate_only=True) == [None]


@pytest.mark.parametrize(
    ("more", "code", "message"),
    [
        (MorePartitions(name=A, count=2), 37, "Topic already has 2 partition(s)."),
        (
            MorePartitions(name=A, count=1),
            37,
            "The topic a currently has 2 partition(s); 1 would not be an increase.",
        ),
        (
            MorePartitions(name=A, count=4, assignments=(node_ids(1),)),
            39,
            "Attempted to add 2 additional partition(s), but only 1 assignment(s) were specified.",
        ),
        (
            MorePartitions(name=A, count=3, assignments=(node_ids(2),)),
            39,
            "The manual partition assignment includes broker 2, but no such broker is registered.",
        ),
        (MorePartitions(name=TopicName("zz"), count=3), 3, "This server does not host this topic-partition."),
        (
            MorePartitions(name=A, count=2**31 - 1),
            44,
            "Excessively large number of partitions per request.",
        ),
    ],
)
def test_partitions_that_cannot_be_added_are_refused(more: MorePartitions, code: int, message: str) -> None:
    image = with_topic(ONE, "a", partition_count=2)
    (outcome,) = added(image, more)
    assert isinstance(outcome, Refusal)
    assert (outcome.code, outcome.message) == (code, message)


@pytest.mark.parametrize(
    "topic",
    [
        NewTopic(name=A, partition_count=5000),
        manual(*((index, (1,)) for index in range(5000))),
    ],
)
def test_many_partitions_are_created_in_slices(topic: NewTopic) -> None:
    job = deciding_create(ONE, [topic], rules())
    steps = _steps(job)
    assert steps >= 2 * 5000 / SLICE_MAX


@pytest.mark.parametrize("assignments", [None, tuple((1,) for _ in range(5000))])
def test_many_partitions_are_added_in_slices(assignments: Any) -> None:
    topic = MorePartitions(name=A, count=5001, assignments=assignments)
    job = deciding_add_partitions(with_topic(ONE, A), [topic], random=Random(7))
    assert _steps(job) >= 2 * 5000 / SLICE_MAX


def _steps(job: Job[ControllerDecision[Any]]) -> int:
    """Return how often the job pauses before it decides to write records."""
    steps = 0
    while True:
        try:
            next(job)
        except StopIteration as end:
            assert len(end.value.records) >= 5000
            return steps
        steps += 1
