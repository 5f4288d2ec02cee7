"""CreateTopics, DeleteTopics, CreatePartitions, DeleteRecords."""

from __future__ import annotations

from typing import Any

from tests.differential.batches import batch
from tests.differential.catalogue.metadata import NO_SUCH_ID, STRANGE_NAMES
from tests.differential.catalogue.requests import produce
from tests.differential.scenario import scenario
from tests.differential.session import REQUEST_MS_MAX, Session


def new_topic(name: str, *, partitions: int = 1, replicas: int = 1, **more: Any) -> dict[str, Any]:
    return {"name": name, "num_partitions": partitions, "replication_factor": replicas, **more}


def create(s: Session, label: str, *topics: dict[str, Any], version: int = 7, validate_only: bool = False) -> None:
    s.call("create_topics", version, label, topics=list(topics), timeout=REQUEST_MS_MAX, validate_only=validate_only)


@scenario
def topics_are_created_in_every_version(s: Session) -> None:
    for version in range(2, 8):
        create(s, "", new_topic(s.name(f"v{version}"), partitions=2), version=version)
        create(s, "again", new_topic(s.name(f"v{version}")), version=version)
        create(s, "only validated", new_topic(s.name(f"w{version}")), version=version, validate_only=True)
        configs = [{"name": "retention.ms", "value": "1000"}, {"name": "cleanup.policy", "value": "compact"}]
        create(s, "with configs", new_topic(s.name(f"c{version}"), configs=configs), version=version)
    for version in range(4, 8):
        create(s, "by defaults", new_topic(s.name(f"d{version}"), partitions=-1, replicas=-1), version=version)
    for version in (2, 3):
        create(
            s, "by defaults, too early", new_topic(s.name(f"e{version}"), partitions=-1, replicas=-1), version=version
        )


@scenario
def topics_that_cannot_be_created(s: Session) -> None:
    for name in STRANGE_NAMES:
        create(s, f"name {name[:12]!r}", new_topic(name))
    create(s, "no partitions", new_topic(s.name("p0"), partitions=0))
    create(s, "negative partitions", new_topic(s.name("p-2"), partitions=-2))
    create(s, "no replicas", new_topic(s.name("r0"), replicas=0))
    create(s, "negative replicas", new_topic(s.name("r-2"), replicas=-2))
    create(s, "too many replicas", new_topic(s.name("r2"), replicas=2))
    create(s, "named twice", new_topic(s.name("twice")), new_topic(s.name("twice")))
    create(s, "one good, one bad", new_topic(s.name("good")), new_topic("bad/name"))
    create(s, "nothing at all")


@scenario
def topics_with_wrong_configs(s: Session) -> None:
    wrong = [
        ("no.such.config", "1"), ("retention.ms", "soon"), ("retention.ms", "-2"), ("segment.bytes", "13"),
        ("cleanup.policy", "burn"), ("cleanup.policy", ""), ("compression.type", "rar"),
        ("message.timestamp.type", "Never"), ("min.insync.replicas", "0"), ("max.message.bytes", "-1"),
        ("unclean.leader.election.enable", "perhaps"), ("min.cleanable.dirty.ratio", "1.5"),
        ("retention.ms", None), ("retention.ms", "99999999999999999999"), ("index.interval.bytes", "-1"),
        ("message.timestamp.before.max.ms", "-1"), ("flush.messages", "0"), ("preallocate", "TRUE"),
        ("remote.storage.enable", "true"), ("message.format.version", "3.0"),
    ]  # fmt: skip
    for number, (option, value) in enumerate(wrong):
        row = {"name": option, "value": value}
        create(s, f"{option}={value}", new_topic(s.name(f"t{number}"), configs=[row]))


@scenario
def topics_with_assignments(s: Session) -> None:
    def assigned(name: str, *partitions: tuple[int, list[int]]) -> dict[str, Any]:
        rows = [{"partition_index": index, "broker_ids": brokers} for index, brokers in partitions]
        return new_topic(s.name(name), partitions=-1, replicas=-1, assignments=rows)

    create(s, "good", assigned("a", (0, [1]), (1, [1])))
    create(s, "an unknown broker", assigned("b", (0, [9])))
    create(s, "a broker twice", assigned("c", (0, [1, 1])))
    create(s, "a gap", assigned("d", (0, [1]), (2, [1])))
    create(s, "not from zero", assigned("e", (1, [1])))
    create(s, "no brokers", assigned("f", (0, [])))
    create(s, "a partition twice", assigned("g", (0, [1]), (0, [1])))
    create(s, "a negative broker", assigned("h", (0, [-1])))
    both = {**assigned("i", (0, [1])), "num_partitions": 1}
    create(s, "and a partition count", both)
    create(s, "and a replica count", {**assigned("j", (0, [1])), "replication_factor": 1})


@scenario
def names_that_collide(s: Session) -> None:
    create(s, "first", new_topic(s.name("a.b_c")))
    create(s, "same", new_topic(s.name("a.b_c")))
    create(s, "dot for underscore", new_topic(s.name("a_b_c")))
    create(s, "underscore for dot", new_topic(s.name("a.b.c")))


@scenario
def topics_are_deleted_in_every_version(s: Session) -> None:
    for version in range(1, 7):
        topic = s.topic(f"v{version}")
        named: dict[str, Any] = {"topic_names": [topic], "topics": [{"name": topic, "topic_id": None}]}
        s.call("delete_topics", version, timeout=REQUEST_MS_MAX, **named)
        s.until(lambda answer: "0 none" not in str(answer["responses"]), "delete_topics", version, "again",
                timeout=REQUEST_MS_MAX, **named)  # fmt: skip
    topic = s.topic("by-id")
    known = s.topic_id(topic)
    s.call(
        "delete_topics", 6, "by an unknown id", timeout=REQUEST_MS_MAX, topics=[{"name": None, "topic_id": NO_SUCH_ID}]
    )
    s.call("delete_topics", 6, "by both", timeout=REQUEST_MS_MAX, topics=[{"name": topic, "topic_id": known}])
    s.call("delete_topics", 6, "by neither", timeout=REQUEST_MS_MAX, topics=[{"name": None, "topic_id": None}])
    s.call("delete_topics", 6, "by id twice", timeout=REQUEST_MS_MAX, topics=[{"name": None, "topic_id": known}] * 2)
    s.call("delete_topics", 6, "by id", timeout=REQUEST_MS_MAX, topics=[{"name": None, "topic_id": known}])
    s.call("delete_topics", 6, "nothing", timeout=REQUEST_MS_MAX, topics=[])
    s.call("delete_topics", 5, "a bad name", timeout=REQUEST_MS_MAX, topic_names=["a/b", ""])


@scenario
def a_topic_made_again_is_another(s: Session) -> None:
    topic = s.topic()
    produce(s, topic, batch(3))
    old = s.topic_id(topic)
    s.call("delete_topics", 5, timeout=REQUEST_MS_MAX, topic_names=[topic])
    s.until(lambda answer: "3 unknown" in str(answer), "metadata", 12, "while it is gone", topics=[{"name": topic}],
            allow_auto_topic_creation=False)  # fmt: skip
    s.topic()
    assert s.topic_id(topic) != old
    asked = [{"name": topic, "partitions": [{"partition_index": 0, "timestamp": -1, "max_num_offsets": 1}]}]
    s.call("list_offsets", 7, replica_id=-1, topics=asked)
    produce(s, topic, batch(1), version=13, topic_id=old, label="to the old id")


@scenario
def partitions_are_added_in_every_version(s: Session) -> None:
    for version in range(4):
        topic = s.topic(f"v{version}")
        for label, count, assignments in (
            ("to 3", 3, None),
            ("to 3 again", 3, None),
            ("to 2", 2, None),
            ("to 0", 0, None),
            ("to -1", -1, None),
            ("by assignment", 4, [{"broker_ids": [1]}]),
            ("by a short assignment", 6, [{"broker_ids": [1]}]),
            ("by an unknown broker", 5, [{"broker_ids": [7]}]),
            ("by no broker", 5, [{"broker_ids": []}]),
        ):
            row = {"name": topic, "count": count, "assignments": assignments}
            s.call("create_partitions", version, label, topics=[row], timeout=REQUEST_MS_MAX, validate_only=False)
        row = {"name": topic, "count": 9, "assignments": None}
        s.call("create_partitions", version, "only validated", topics=[row], timeout=REQUEST_MS_MAX, validate_only=True)
        unknown = {"name": s.name("none"), "count": 2, "assignments": None}
        s.call("create_partitions", version, "unknown", topics=[unknown], timeout=REQUEST_MS_MAX, validate_only=False)
        s.call("create_partitions", version, "twice", topics=[row, row], timeout=REQUEST_MS_MAX, validate_only=False)


@scenario
def records_are_deleted_in_every_version(s: Session) -> None:
    for version in range(3):
        topic = s.topic(f"v{version}")
        produce(s, topic, batch(10))
        for offset in (0, 3, 2, 11, -2, -1, 10):
            rows = [{"name": topic, "partitions": [{"partition_index": 0, "offset": offset}]}]
            s.call("delete_records", version, f"to {offset}", topics=rows, timeout=REQUEST_MS_MAX)
        produce(s, topic, batch(2), label="after all were deleted")
    rows = [{"name": topic, "partitions": [{"partition_index": 5, "offset": 1}, {"partition_index": -1, "offset": 1}]},
            {"name": s.name("none"), "partitions": [{"partition_index": 0, "offset": 1}]}]  # fmt: skip
    s.call("delete_records", 2, "of unknown partitions", topics=rows, timeout=REQUEST_MS_MAX)
    compacted = s.topic("compacted", configs={"cleanup.policy": "compact"})
    produce(s, compacted, batch(2))
    rows = [{"name": compacted, "partitions": [{"partition_index": 0, "offset": 1}]}]
    s.call("delete_records", 2, "of a compacted topic", topics=rows, timeout=REQUEST_MS_MAX)
