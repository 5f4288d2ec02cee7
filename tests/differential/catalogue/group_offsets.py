"""OffsetCommit, OffsetFetch and OffsetDelete."""

from __future__ import annotations

from tests.differential.catalogue.group_requests import commit, fetch_offsets, ready, stable_member
from tests.differential.scenario import scenario
from tests.differential.session import REQUEST_MS_MAX, Session

COMMIT_VERSIONS = range(2, 11)
FETCH_VERSIONS = range(1, 11)
NO_TOPIC = "00000000-0000-0000-0000-00000000beef"


@scenario
def commits_in_every_version(s: Session) -> None:
    topic = s.topic(partitions=2)
    for version in COMMIT_VERSIONS:
        group = s.name(f"v{version}")
        ready(s, group)
        commit(s, group, (0, 5), (1, 7), topic=topic, version=version, label="of two partitions", epoch=0)
        commit(s, group, (0, 3), topic=topic, version=version, label="back", metadata=None)
        commit(s, group, (0, 4), (2, 1), (-1, 1), topic=topic, version=version, label="of partitions that are not")
        if version < 10:
            commit(s, group, (0, 1), topic=s.name("nothing"), version=version, label="of an unknown topic")
            commit(s, group, (0, 1), topic="", version=version, label="of a topic without a name")
        else:
            commit(s, group, (0, 1), topic=topic, topic_id=NO_TOPIC, version=version, label="of an unknown topic")
        commit(s, group, (0, 4), topic=topic, version=version, label="of a generation", generation=3)
        commit(s, group, (0, 4), topic=topic, version=version, label="of a stranger", generation=3, member="x")
        commit(s, group, topic=topic, version=version, label="of no partitions")
        commit(s, "", (0, 4), topic=topic, version=version, label="of a group without a name")
        for fetching in FETCH_VERSIONS:
            fetch_offsets(s, group, topic, 0, 1, 2, version=fetching, label=f"of a commit v{version}")


@scenario
def offsets_are_fetched_in_every_version(s: Session) -> None:
    topic, other = s.topic(partitions=3), s.topic("other")
    group, nobody = s.name("g"), s.name("nobody")
    ready(s, group, nobody)
    commit(s, group, (0, 5), (2, 7), topic=topic)
    commit(s, group, (0, 9), topic=other, metadata="")
    for version in FETCH_VERSIONS:
        fetch_offsets(s, group, topic, 0, 1, 2, 3, version=version)
        fetch_offsets(s, nobody, topic, 0, version=version, label="of no group")
        fetch_offsets(s, "", topic, 0, version=version, label="of a group without a name")
        if version < 10:
            fetch_offsets(s, group, s.name("nothing"), 0, version=version, label="of an unknown topic")
        else:
            fetch_offsets(s, group, topic, 0, topic_id=NO_TOPIC, version=version, label="of an unknown topic")
        fetch_offsets(s, group, topic, version=version, label="of no partitions")
        fetch_offsets(s, nobody, None, version=version, label="everything of no group")
        if version >= 7:
            fetch_offsets(s, group, topic, 0, version=version, label="only stable ones", require_stable=True)
    for version in (8, 9):
        row = {"name": topic, "partition_indexes": [0, 1]}
        s.call(
            "offset_fetch", version, "of two groups and one without a name",
            groups=[{"group_id": one, "topics": [row]} for one in (group, nobody, "")],
        )  # fmt: skip
        s.call("offset_fetch", version, "of no groups", groups=[])


@scenario
def everything_that_was_committed(s: Session) -> None:
    topic = s.topic()
    group = s.name("g")
    ready(s, group)
    commit(s, group, (0, 5), topic=topic)
    for version in range(2, 11):
        fetch_offsets(s, group, None, version=version, label="everything")


@scenario
def members_commit(s: Session) -> None:
    topic = s.topic()
    group = s.name("g")
    ready(s, group)
    member = stable_member(s, group)
    for version in COMMIT_VERSIONS:
        for label, generation, who in (
            ("a member", 1, member),
            ("the generation before", 0, member),
            ("a generation to come", 2, member),
            ("without a generation", -1, member),
            ("a stranger", 1, "stranger"),
            ("somebody without an id", 1, ""),
            ("on its own", -1, ""),
        ):
            commit(s, group, (0, version), topic=topic, version=version, generation=generation, member=who, label=label)
    commit(s, group, (0, 1), topic=topic, generation=1, member=member, label="an instance", group_instance_id="i")
    fetch_offsets(s, group, topic, 0)
    for version in (9, 10):
        fetch_offsets(s, group, topic, 0, version=version, member=member, epoch=1, label="as a member")
        fetch_offsets(s, group, topic, 0, version=version, member=member, epoch=5, label="of a wrong generation")
        fetch_offsets(s, group, topic, 0, version=version, member="stranger", epoch=1, label="as a stranger")


@scenario
def what_is_said_with_an_offset(s: Session) -> None:
    topic = s.topic()
    group = s.name("g")
    ready(s, group)
    for size in (0, 1, 126, 127, 128, 4095, 4096, 4097):
        commit(s, group, (0, size), topic=topic, metadata="x" * size, label=f"with {size} bytes")
        fetch_offsets(s, group, topic, 0, label=f"with {size} bytes")
    commit(s, group, (0, 1), topic=topic, metadata="ü" * 2049, label="with 2049 characters of two bytes")
    for offset in (0, -1, -2, 2**63 - 1):
        commit(s, group, (0, offset), topic=topic, label=f"at {offset}")
        fetch_offsets(s, group, topic, 0, label=f"at {offset}")
    for epoch in (0, 7, -1, -5):
        commit(s, group, (0, 3), topic=topic, epoch=epoch, label=f"of epoch {epoch}")
        fetch_offsets(s, group, topic, 0, label=f"of epoch {epoch}")


@scenario
def commits_of_one_topic_twice(s: Session) -> None:
    topic = s.topic(partitions=2)
    group = s.name("g")
    ready(s, group)
    rows = [{"partition_index": 0, "committed_offset": offset, "committed_leader_epoch": -1,
             "committed_metadata": ""} for offset in (3, 4)]  # fmt: skip
    named = {"name": topic, "partitions": rows}
    values = {"group_id": group, "generation_id_or_member_epoch": -1, "member_id": ""}
    s.call("offset_commit", 9, "one partition twice", topics=[named], **values)
    s.call("offset_commit", 9, "one topic twice", topics=[named, named], **values)
    s.call("offset_commit", 9, "no topics", topics=[], **values)
    s.call(
        "offset_commit", 9, "good and bad",
        topics=[{"name": s.name("nothing"), "partitions": rows[:1]}, {"name": topic, "partitions": rows[:1]}], **values,
    )  # fmt: skip
    fetch_offsets(s, group, topic, 0, 0, label="one partition twice")


@scenario
def offsets_are_deleted(s: Session) -> None:
    topic = s.topic(partitions=3)
    group, nobody, busy = s.name("g"), s.name("nobody"), s.name("busy")
    ready(s, group, nobody, busy)
    commit(s, group, (0, 5), (1, 7), topic=topic)

    def delete(label: str, who: str, *partitions: int, name: str = topic) -> None:
        rows = [{"name": name, "partitions": [{"partition_index": index} for index in partitions]}]
        s.call("offset_delete", 0, label, group_id=who, topics=rows)

    delete("one", group, 0)
    delete("again, and one that was never committed", group, 0, 2)
    delete("a partition that is not", group, 9)
    delete("an unknown topic", group, 0, name=s.name("nothing"))
    delete("no group", nobody, 0)
    delete("a group without a name", "", 0)
    s.call("offset_delete", 0, "no topics", group_id=group, topics=[])
    fetch_offsets(s, group, topic, 0, 1)
    from tests.differential.catalogue.group_requests import subscription

    member = stable_member(s, busy, metadata=subscription(topic))
    commit(s, busy, (0, 1), topic=topic, generation=1, member=member)
    other = s.topic("other")
    commit(s, busy, (0, 1), topic=other, generation=1, member=member)
    delete("a topic that is being read", busy, 0)
    delete("one that is not", busy, 0, name=other)
    delete("the last", group, 1)
    s.call("describe_groups", 5, "after the last offset", groups=[group])


@scenario
def offsets_go_with_their_topic(s: Session) -> None:
    topic, other = s.topic(), s.topic("other")
    group = s.name("g")
    ready(s, group)
    commit(s, group, (0, 5), topic=topic)
    commit(s, group, (0, 6), topic=other)
    s.call("delete_topics", 6, topics=[{"name": topic, "topic_id": None}], timeout=REQUEST_MS_MAX)
    s.until(
        lambda answer: len(answer["groups"][0]["topics"]) == 1,
        "offset_fetch", 9, "once the topic is gone", groups=[{"group_id": group, "topics": None, "member_epoch": -1}],
    )  # fmt: skip
