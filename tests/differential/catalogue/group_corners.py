"""Corner cases of groups: unusual names, members of both protocols in one group, protocol changes midway."""

from __future__ import annotations

import struct

from tests.differential.catalogue.consumer_groups import Members
from tests.differential.catalogue.group_requests import (
    beat,
    begin_join,
    begin_sync,
    commit,
    fetch_offsets,
    join,
    leave,
    new_member,
    ready,
    stable_member,
    subscription,
    sync,
    until_rebalancing,
)
from tests.differential.scenario import scenario
from tests.differential.session import REQUEST_MS_MAX, Session

LAST = "o"
"""A member id that the uniform assignor processes last on both brokers.

If there are more members than partitions, the members that own nothing are processed from the last to the first.
Penstock orders members by id. Kafka uses the order of a HashMap with sixteen buckets, so with random ids the result
varies between runs: "m" is in bucket 13, and a random id is after it in one run of twelve. "o" is in the last bucket,
and joins after all others.
"""


def assignment(topic: str, *partitions: int) -> bytes:
    name = topic.encode()
    out = struct.pack(">hi", 1, 1) + struct.pack(">h", len(name)) + name + struct.pack(">i", len(partitions))
    return out + b"".join(struct.pack(">i", one) for one in partitions) + struct.pack(">i", -1)


def owning(topic: str, *partitions: int) -> bytes:
    name = topic.encode()
    row = struct.pack(">h", len(name)) + name + struct.pack(">i", len(partitions))
    row += b"".join(struct.pack(">i", one) for one in partitions)
    return struct.pack(">hi", 1, 1) + struct.pack(">h", len(name)) + name + struct.pack(">ii", -1, 1) + row


@scenario
def strange_names(s: Session) -> None:
    topic = s.topic()
    for label, name in (
        ("a blank", " "),
        ("blanks and tabs", " \t "),
        ("a newline", "a\nb"),
        ("nul", "a\0b"),
        ("escape", "\x1b[31mred"),
        ("unicode", "gruppe-ü-☃-😀"),
        ("249", "g" * 249),
        ("255", "g" * 255),
        ("1000", "g" * 1000),
        ("32767", "g" * 32767),
        ("slash", "../../etc"),
        ("dot", "."),
        ("right to left", "\u202eabc"),
    ):
        ready(s, name)
        commit(s, name, (0, 5), topic=topic, label=label)
        fetch_offsets(s, name, topic, 0, label=label)
        stable_member(s, name)
        s.call("describe_groups", 5, label, groups=[name])
        s.call("delete_groups", 2, label, groups_names=[name])
        modern = name + "-m" if len(name) < 32000 else name[:-2] + "-m"
        ready(s, modern)
        group = Members(s, modern)
        epoch = int(group.join(label, "m", topic).get("member_epoch", 0))
        s.call("consumer_group_describe", 1, label, group_ids=[modern])
        group.beat(label, "m", epoch)
        group.beat(label + " leaves", "m", -1)


@scenario
def names_that_do_not_fit(s: Session) -> None:
    topic = s.topic()
    long = "x" * 40_000
    group = s.name("g")
    ready(s, group)
    s.call("find_coordinator", 4, "long", key_type=0, coordinator_keys=[long])
    commit(s, long, (0, 5), topic=topic, label="long group")
    fetch_offsets(s, long, topic, 0, label="long group")
    join(s, long, label="long group")
    Members(s, long).join("long group", "m", topic)
    Members(s, group).join("long member", long, topic)
    Members(s, group).join("long instance", "m", topic, instance_id=long)
    Members(s, group).join("long rack", "m", topic, rack_id=long)
    Members(s, group).join("long regex", "m", subscribed_topic_regex=long)
    s.call("consumer_group_describe", 1, group_ids=[group])
    other = s.name("other")
    ready(s, other)
    join(s, other, label="long instance", group_instance_id=long)
    join(s, other, label="long protocol", protocols=(long,))
    s.call("describe_groups", 5, "x", groups=[other])
    commit(s, group, (0, 5), topic=topic, label="long metadata", metadata=long)
    s.call("delete_groups", 2, "long", groups_names=[long])
    s.call("describe_groups", 5, "long", groups=[long])


PATTERNS = {
    "nothing": "", "look ahead": "(?=a)a", "back reference": "(a)\\1", "a class of java": "\\p{Alpha}+",
    "possessive": "a*+", "unicode": "\\p{L}+", "case": "(?i)ALPHA", "quoted": "\\Qa.b\\E", "named": "(?<n>a)",
    "named in python": "(?P<n>a)", "too many": "a{1001}", "many": "a{1000}", "hex": "\\x{61}", "anchors": "^a$",
    "posix": "[[:alpha:]]+", "ends": "\\Aa\\z", "end of line": "a\\Z", "union": "[a-c[d-f]]", "open": "a\\",
    "intersection": "[a-z&&[abc]]", "atomic": "(?>a)", "bare": "*a",
}  # fmt: skip


@scenario
def patterns_of_every_kind(s: Session) -> None:
    topic = s.topic("alpha")
    group = Members(s, s.name("g"))
    ready(s, group.group)
    epoch = int(group.join("internal topics", "m", subscribed_topic_regex="__consumer_off.*")["member_epoch"])
    s.until(
        lambda answer: answer["groups"][0]["group_epoch"] > epoch,
        "consumer_group_describe", 1, "once it is resolved", group_ids=[group.group],
    )  # fmt: skip
    for label, pattern in PATTERNS.items():
        one = Members(s, s.name(label.replace(" ", "-")))
        ready(s, one.group)
        one.join(f"a broken pattern? {label}", "m", subscribed_topic_regex=pattern)
        one.join(f"a broken pattern? {label}, and names", "m2", topic, subscribed_topic_regex=pattern)


def classic_group_of_one(s: Session, *, partitions: int) -> tuple[str, str, bytes, str]:
    """Create a stable classic group whose member owns a whole topic; return topic, group, subscription and member."""
    topic = s.topic(partitions=partitions)
    group = s.name("g")
    ready(s, group)
    said = subscription(topic)
    one = new_member(s, group, metadata=said)
    join(s, group, one, metadata=said, label="with the id")
    sync(s, group, 1, one, {one: assignment(topic, *range(partitions))})
    return topic, group, said, one


@scenario
def protocols_change_while_members_join(s: Session) -> None:
    topic, group, said, one = classic_group_of_one(s, partitions=2)
    two = new_member(s, group, metadata=said)
    waiting = begin_join(s, group, two, metadata=said, label="the second")
    until_rebalancing(s, group, 1, one)
    modern = Members(s, group)
    modern.join("in the middle of a rebalance", LAST, topic)
    waiting.answer("dismissed")
    beat(s, group, 1, one, label="the first")
    s.call("describe_groups", 6, groups=[group])
    s.call("consumer_group_describe", 1, group_ids=[group])
    join(s, group, two, metadata=said, label="the second again")
    join(s, group, one, metadata=owning(topic, 0, 1), label="the first again")


@scenario
def protocols_change_while_members_sync(s: Session) -> None:
    topic, group, said, one = classic_group_of_one(s, partitions=2)
    two = new_member(s, group, metadata=said)
    waiting = begin_join(s, group, two, metadata=said, label="the second")
    until_rebalancing(s, group, 1, one)
    join(s, group, one, metadata=said, label="the first again")
    waiting.answer()
    share_ = begin_sync(s, group, 2, two)
    modern = Members(s, group)
    modern.join("in the middle of a sync", LAST, topic)
    share_.answer("dismissed")
    sync(s, group, 2, one, {one: assignment(topic, 0), two: assignment(topic, 1)}, label="too late")
    beat(s, group, 2, one, label="the first")
    commit(s, group, (0, 3), topic=topic, generation=2, member=one, label="the first")
    s.call("consumer_group_describe", 1, group_ids=[group])


@scenario
def classic_members_in_a_consumer_group(s: Session) -> None:
    topic, group, said, one = classic_group_of_one(s, partitions=4)
    commit(s, group, (0, 1), topic=topic, generation=1, member=one, version=8, label="before")
    modern = Members(s, group)
    epoch = int(modern.join("m joins", "m", topic)["member_epoch"])
    commit(s, group, (0, 2), topic=topic, generation=1, member=one, version=8, label="of the generation before")
    commit(s, group, (0, 2), topic=topic, generation=2, member=one, version=8, label="of a generation to come")
    beat(s, group, 1, one, label="told to join")
    sync(s, group, 1, one, label="without a join")
    join(s, group, one, metadata=owning(topic, 0, 1, 2, 3), label="still owning")
    sync(s, group, 1, one, label="to give up")
    beat(s, group, 1, one, label="giving up")
    s.call("consumer_group_describe", 1, "giving up", group_ids=[group])
    join(s, group, one, metadata=owning(topic, 0, 1), label="given up")
    s.call("consumer_group_describe", 1, "given up", group_ids=[group])
    sync(s, group, epoch, one, label="given up")
    beat(s, group, epoch, one, label="settled")
    commit(s, group, (0, 2), topic=topic, generation=1, member=one, version=8, label="the old generation")
    commit(s, group, (0, 2), topic=topic, generation=epoch, member=one, version=8, label="the generation")
    commit(s, group, (0, 2), topic=topic, generation=epoch, member=one, version=9, label="the generation")
    modern.beat("m goes on", "m", epoch)
    join(s, group, one, metadata=said, label="with nothing owned")
    sync(s, group, epoch, one, protocol_name="range", label="with the old protocol")
    join(s, group, one, metadata=said, session_timeout=1, label="a short session")
    leave(s, group, "m", label="the member of the new protocol is removed")
    s.call("describe_groups", 6, "classic again", groups=[group])
    beat(s, group, epoch, one, label="afterwards")
    modern.beat("m is gone", "m", epoch)


@scenario
def static_members_change_their_protocol(s: Session) -> None:
    topic = s.topic(partitions=2)
    group = s.name("g")
    ready(s, group)
    said = subscription(topic)
    one = str(join(s, group, metadata=said, group_instance_id="instance", label="i")["member_id"])
    sync(s, group, 1, one, {one: assignment(topic, 0, 1)}, group_instance_id="instance")
    modern = Members(s, group)
    answer = modern.join("i comes in the new protocol", "m", topic, instance_id="instance")
    beat(s, group, 1, one, group_instance_id="instance", label="the one before")
    s.call("consumer_group_describe", 1, group_ids=[group])
    epoch = int(answer.get("member_epoch", 0))
    modern.beat("i goes on", "m", epoch, instance_id="instance")
    again = join(s, group, metadata=said, group_instance_id="instance", label="i comes back")
    s.call("describe_groups", 6, groups=[group])
    modern.beat("i was replaced", "m", epoch, instance_id="instance")
    member, generation = str(again.get("member_id", "")), int(again.get("generation_id", 0))
    sync(s, group, generation, member, group_instance_id="instance", label="i")
    beat(s, group, generation, member, group_instance_id="instance", label="i")


@scenario
def static_consumers_come_back(s: Session) -> None:
    topic, other = s.topic(partitions=2), s.topic("other", partitions=2)
    topic_id = s.topic_id(topic)
    group = Members(s, s.name("g"))
    ready(s, group.group)
    epoch = int(group.join("a", "a", topic, instance_id="i")["member_epoch"])
    group.beat("a owns", "a", epoch, instance_id="i", owned={topic_id: [0, 1]})
    group.beat("a leaves for a while", "a", -2, instance_id="i")
    s.call("consumer_group_describe", 1, "away", group_ids=[group.group])
    commit(s, group.group, (0, 1), topic=topic, generation=epoch, member="a", label="away")
    commit(s, group.group, (0, 1), topic=topic, generation=-2, member="a", label="away, with its epoch")
    group.beat("a without a word", "a", epoch, instance_id="i")
    group.beat("a leaves for a while again", "a", -2, instance_id="i")
    answer = group.join("b with another subscription", "b", other, instance_id="i")
    epoch = int(answer["member_epoch"])
    s.call("consumer_group_describe", 1, "other topics", group_ids=[group.group])
    group.beat("b goes on", "b", epoch, instance_id="i", owned={})
    group.beat("b leaves for a while", "b", -2, instance_id="i")
    answer = group.join("b again, with its own id", "b", other, instance_id="i")
    epoch = int(answer["member_epoch"])
    group.beat("b leaves for a while", "b", -2, instance_id="i")
    # A pattern that matches a topic would change the epoch as soon as it is resolved, which takes Kafka a while.
    group.join("c by pattern", "c", instance_id="i", subscribed_topic_regex=s.name("none"))
    group.beat("b leaves for good", "b", -1, instance_id="i")
    group.beat("c leaves for good", "c", -1, instance_id="i")
    group.join("d of an instance", "d", topic, instance_id="j")
    leave(s, group.group, label="an administrator removes it", members=[{"member_id": "", "group_instance_id": "j"}])
    s.call("consumer_group_describe", 1, "nobody", group_ids=[group.group])


@scenario
def topics_change_under_consumer_groups(s: Session) -> None:
    topic = s.topic(partitions=1)
    group = Members(s, s.name("g"))
    ready(s, group.group)
    epoch = int(group.join("a", "a", topic)["member_epoch"])
    commit(s, group.group, (0, 7), topic=topic, generation=epoch, member="a")
    s.call("create_partitions", 3, topics=[{"name": topic, "count": 3, "assignments": None}], timeout=REQUEST_MS_MAX)
    s.settle(topic, 3)
    epoch += 1
    s.until(
        lambda answer: answer["member_epoch"] == epoch,
        "consumer_group_heartbeat",
        1,
        "wider",
        group_id=group.group,
        member_id="a",
        member_epoch=epoch - 1,
        topic_partitions=None,
    )
    s.call("delete_topics", 6, topics=[{"name": topic, "topic_id": None}], timeout=REQUEST_MS_MAX)
    epoch += 1
    s.until(
        lambda answer: answer["error_code"] != "0 none" or answer["assignment"] is not None,
        "consumer_group_heartbeat",
        1,
        "deleted",
        group_id=group.group,
        member_id="a",
        member_epoch=epoch - 1,
        topic_partitions=None,
    )
    s.call("consumer_group_describe", 1, "deleted", group_ids=[group.group])
    commit(s, group.group, (0, 9), topic=topic, generation=epoch - 1, member="a", label="to a deleted topic")


@scenario
def heartbeats_that_say_odd_things(s: Session) -> None:
    topic = s.topic(partitions=2)
    topic_id = s.topic_id(topic)
    group = Members(s, s.name("g"))
    ready(s, group.group)
    epoch = int(group.join("a twice named", "a", topic, topic)["member_epoch"])
    group.beat("an unknown topic is owned", "a", epoch, owned={"00000000-0000-0000-0000-00000000beef": [0]})
    group.beat("partitions that are not", "a", epoch, owned={topic_id: [0, 1, 77, -3]})
    group.beat("a topic of none", "a", epoch, owned={topic_id: []})
    group.beat("twice the same", "a", epoch, owned={topic_id: [0, 0, 1, 1]})
    group.beat("nothing is subscribed to", "a", epoch, subscribed_topic_names=[])
    epoch += 1
    group.beat("goes on", "a", epoch, owned={})
    group.beat("a rebalance timeout of 0", "a", epoch, rebalance_timeout=0)
    group.beat("a negative rebalance timeout", "a", epoch, rebalance_timeout=-7)
    group.beat("another rack", "a", epoch, rack_id="r2")
    group.beat("another assignor", "a", epoch, server_assignor="range")
    group.beat("an unknown assignor", "a", epoch, server_assignor="nonsense")
    group.beat("an instance out of the blue", "a", epoch, instance_id="i")
    group.beat("version 0", "a", epoch, version=0)
    group.join("an id in version 0", "", topic, version=0)
    s.call("consumer_group_describe", 1, "both", group_ids=[group.group])
    group.beat("leaves", "a", -1, owned={topic_id: [0]}, subscribed_topic_names=[topic])
    group.beat("leaves twice", "a", -1)


@scenario
def joins_that_say_odd_things(s: Session) -> None:
    group = s.name("g")
    ready(s, group)
    member = stable_member(s, group)
    join(s, group, member, group_instance_id="i", label="a member becomes static")
    beat(s, group, 1, member, group_instance_id="", label="an empty instance")
    many = s.name("many")
    ready(s, many)
    join(s, many, protocols=tuple(f"p{n}" for n in range(300)), label="300 protocols")
    join(s, many, protocol_type="\0", label="a type of nul")


@scenario
def offsets_of_consumer_groups_are_deleted(s: Session) -> None:
    topic, other = s.topic(), s.topic("other")
    group = Members(s, s.name("g"))
    ready(s, group.group)
    epoch = int(group.join("a", "a", topic)["member_epoch"])
    commit(s, group.group, (0, 1), topic=topic, generation=epoch, member="a")
    commit(s, group.group, (0, 1), topic=other, generation=epoch, member="a")
    for name in (topic, other, s.name("nothing")):
        rows = [{"name": name, "partitions": [{"partition_index": 0}]}]
        s.call("offset_delete", 0, name, group_id=group.group, topics=rows)
    fetch_offsets(s, group.group, topic, 0)
    fetch_offsets(s, group.group, other, 0)
    group.beat("leaves", "a", -1)
    rows = [{"name": topic, "partitions": [{"partition_index": 0}]}]
    s.call("offset_delete", 0, "empty", group_id=group.group, topics=rows)
    s.call("consumer_group_describe", 1, "empty", group_ids=[group.group])
    join(s, group.group, label="a classic member comes")
    # Kafka describes the consumer group until the records that replace it are committed.
    s.until(lambda answer: answer["groups"][0]["group_state"] != "Dead", "describe_groups", 6, groups=[group.group])
