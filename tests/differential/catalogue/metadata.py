"""Metadata and DescribeTopicPartitions."""

from __future__ import annotations

from tests.differential.scenario import scenario
from tests.differential.session import Session

STRANGE_NAMES = ("", ".", "..", "a/b", "../x", "nul\0", "x" * 249, "x" * 250, "späce", "with space", "ok_1.-")
NO_SUCH_ID = "01234567-89ab-cdef-0123-456789abcdef"


@scenario
def metadata_in_every_version(s: Session) -> None:
    topic = s.topic(partitions=3)
    for version in range(14):
        asked = [{"name": topic}]
        s.call("metadata", version, topics=asked, allow_auto_topic_creation=False)
        # Up to version 3 asking for a topic makes it: what comes first is not settled, so it is asked for once.
        s.call("metadata", version, "of an unknown topic", topics=[{"name": s.name(f"none{version}")}],
               allow_auto_topic_creation=False)  # fmt: skip
        s.call("metadata", version, "of no topic", topics=[] if version else [{"name": topic}])
        s.call("metadata", version, "with operations", topics=asked, include_topic_authorized_operations=True,
               include_cluster_authorized_operations=True, allow_auto_topic_creation=False)  # fmt: skip


@scenario
def metadata_of_all_topics_holds_ours(s: Session) -> None:
    topic = s.topic()
    for version in range(14):
        answer = s.ask("metadata", version, topics=None if version else [], allow_auto_topic_creation=False)
        found = [row for row in answer["topics"] if row["name"] == topic] if isinstance(answer, dict) else answer
        s.note(f"version {version}", found)


@scenario
def metadata_by_id(s: Session) -> None:
    topic = s.topic()
    known = s.topic_id(topic)
    for version in (12, 13):
        s.call("metadata", version, topics=[{"name": None, "topic_id": known}])
        s.call("metadata", version, "of an unknown id", topics=[{"name": None, "topic_id": NO_SUCH_ID}])
        s.call("metadata", version, "with both", topics=[{"name": topic, "topic_id": known}])
        s.call("metadata", version, "by id and by name", topics=[{"name": None, "topic_id": known}, {"name": topic}])
        s.call("metadata", version, "with neither", topics=[{"name": None, "topic_id": None}])
    for version in (10, 11):
        s.call("metadata", version, "by id too early", topics=[{"name": None, "topic_id": known}])


@scenario
def metadata_of_strange_names(s: Session) -> None:
    for name in STRANGE_NAMES:
        s.call("metadata", 9, f"of {name[:12]!r}", topics=[{"name": name}], allow_auto_topic_creation=False)
        s.call("metadata", 4, f"of {name[:12]!r}", topics=[{"name": name}], allow_auto_topic_creation=False)
    s.call("metadata", 9, "of bad names that may be created", allow_auto_topic_creation=True,
           topics=[{"name": name} for name in ("", "..", "a/b", "x" * 250)])  # fmt: skip


@scenario
def metadata_of_the_same_topic_twice(s: Session) -> None:
    topic = s.topic()
    s.call("metadata", 12, topics=[{"name": topic}, {"name": topic}])


@scenario
def asking_makes_the_topic(s: Session) -> None:
    for version in (1, 4, 9, 12):
        name = s.name(f"made-{version}")

        def made(answer: dict[str, object]) -> bool:
            topics = answer["topics"]
            assert isinstance(topics, list)
            return bool(topics[0]["error_code"] == "0 none")

        s.until(made, "metadata", version, topics=[{"name": name}], allow_auto_topic_creation=True)


@scenario
def topic_partitions_are_described(s: Session) -> None:
    topic = s.topic(partitions=5)
    other = s.topic("u", partitions=2)
    asked = [{"name": other}, {"name": topic}]
    s.call("describe_topic_partitions", 0, topics=asked)
    s.call("describe_topic_partitions", 0, "three at most", topics=asked, response_partition_limit=3)
    s.call("describe_topic_partitions", 0, "from a cursor", topics=asked,
           cursor={"topic_name": topic, "partition_index": 3})  # fmt: skip
    s.call("describe_topic_partitions", 0, "from a cursor inside, one at most", topics=asked,
           response_partition_limit=1, cursor={"topic_name": topic, "partition_index": 1})  # fmt: skip
    s.call("describe_topic_partitions", 0, "from a cursor behind the end", topics=asked,
           cursor={"topic_name": topic, "partition_index": 99})  # fmt: skip
    s.call("describe_topic_partitions", 0, "from a negative cursor", topics=asked,
           cursor={"topic_name": topic, "partition_index": -1})  # fmt: skip
    s.call("describe_topic_partitions", 0, "unknown and bad names",
           topics=[{"name": s.name("none")}, {"name": "a/b"}, {"name": ""}])  # fmt: skip
    s.call("describe_topic_partitions", 0, "no partitions wanted", topics=asked, response_partition_limit=0)
    s.call("describe_topic_partitions", 0, "a negative limit", topics=asked, response_partition_limit=-5)
    s.call("describe_topic_partitions", 0, "the same twice", topics=[{"name": other}, {"name": other}])
