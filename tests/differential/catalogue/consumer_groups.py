"""ConsumerGroupHeartbeat and ConsumerGroupDescribe (KIP-848), and groups that change their protocol."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import Any

from penstock.coordinator.keys import partition_of
from penstock.model.topic import CONSUMER_OFFSETS
from tests.differential.catalogue.group_requests import (
    beat,
    commit,
    fetch_offsets,
    join,
    leave,
    new_member,
    ready,
    stable_member,
    subscription,
    sync,
)
from tests.differential.scenario import scenario
from tests.differential.session import Answer, Session
from tests.support.eventually import eventually

Owned = dict[str, list[int]]


@dataclass
class Members:
    """Members of one group, represented by their heartbeats."""

    s: Session
    group: str
    known: set[str] = field(default_factory=set)
    """Topics that the group coordinator knows."""

    def beat(
        self, label: str, member: str, epoch: int, *, owned: Owned | None = None, version: int = 1, **more: Any
    ) -> Answer:
        """Send a heartbeat and record the response, without the choice between equivalent partitions."""
        rows = None if owned is None else [{"topic_id": one, "partitions": parts} for one, parts in owned.items()]
        values = {"group_id": self.group, "member_id": member, "member_epoch": epoch, "topic_partitions": rows, **more}
        answer = self.s.ask("consumer_group_heartbeat", version, **values)
        shown = answer
        if isinstance(answer, dict) and answer["assignment"] is not None:
            shares = [
                {"topic_id": one["topic_id"], "partition_count": len(one["partitions"])}
                for one in answer["assignment"]["topic_partitions"]
            ]
            shown = {**answer, "assignment": sorted(shares, key=lambda share: share["partition_count"])}
        self.s.note(f"consumer_group_heartbeat v{version} {label}", shown)
        return answer if isinstance(answer, dict) else {}

    def join(self, label: str, member: str, *topics: str, **more: Any) -> Answer:
        names = more.pop("subscribed_topic_names", list(topics) or None)
        wait_known(self.s, self.group, self.s.created.intersection(names or ()) - self.known)
        self.known.update(names or ())
        values = {"rebalance_timeout": 10_000, "owned": {}, "subscribed_topic_names": names, **more}
        return self.beat(label, member, 0, **values)


def wait_known(s: Session, group: str, topics: set[str]) -> None:
    """Wait until the shard of a group knows topics: in Kafka, the metadata reaches the shards after the logs.

    A member of another group of the same shard subscribes to them until it is assigned partitions.
    """
    if not topics:
        return
    offsets = s.ask("metadata", 12, topics=[{"name": CONSUMER_OFFSETS}])
    assert isinstance(offsets, dict)
    shards = len(offsets["topics"][0]["partitions"])
    probes = (f"{group}.probe-{number}" for number in itertools.count())
    probe = next(name for name in probes if partition_of(name, shards) == partition_of(group, shards))
    member = {"group_id": probe, "member_id": "probe"}
    new = {"rebalance_timeout": 10_000, "topic_partitions": [], "subscribed_topic_names": sorted(topics)}

    def are_known() -> bool:
        answer = s.ask("consumer_group_heartbeat", 1, **member, member_epoch=0, **new)
        assert isinstance(answer, dict)
        rows = (answer.get("assignment") or {}).get("topic_partitions", [])
        s.ask("consumer_group_heartbeat", 1, **member, member_epoch=-1)
        return answer["error_code"] != "0 none" or len(rows) == len(topics)

    eventually(are_known, what=f"the assignment of {sorted(topics)} to a probe")
    s.ask("delete_groups", 2, groups_names=[probe])


def share(answer: Answer, topic_id: str) -> list[int]:
    rows = (answer.get("assignment") or {}).get("topic_partitions", [])
    return sorted(part for row in rows if row["topic_id"] == topic_id for part in row["partitions"])


@scenario
def heartbeats_that_are_refused(s: Session) -> None:
    topic = s.topic(partitions=4)
    topic_id = s.topic_id(topic)
    group = Members(s, s.name("g"))
    ready(s, group.group)
    join = group.join
    group.beat("of no group", "a", 1)
    group.beat("leaves no group", "a", -1)
    join("without a timeout", "a", topic, rebalance_timeout=-1)
    join("with a timeout of 0", "a", topic, rebalance_timeout=0)
    join("owning null", "a", topic, owned=None)
    join("owning something", "a", topic, owned={topic_id: [0]})
    join("subscribed to nothing said", "a")
    group.beat("epoch -3", "a", -3, owned={}, rebalance_timeout=10_000)
    group.beat("goes for a while without an instance", "a", -2)
    join("an empty rack", "a", topic, rack_id="")
    join("an empty instance", "a", topic, instance_id="")
    join("an unknown assignor", "a", topic, server_assignor="x")
    join("an empty assignor", "a", topic, server_assignor="")
    join("a broken pattern", "a", subscribed_topic_regex="(")
    join("without an id", "", topic)
    join("a bad topic name", "a", "bad name/")
    Members(s, "").join("a group without a name", "a", topic)
    for version in (0, 1):
        group.beat("of a stranger", "stranger", 5, version=version)


@scenario
def a_consumer_group_from_end_to_end(s: Session) -> None:
    topic, more = s.topic(partitions=4), s.topic("u")
    topic_id = s.topic_id(topic)
    group = Members(s, s.name("g"))
    ready(s, group.group)
    group.join("a joins", "a", topic)
    first = s.ask("consumer_group_describe", 1, group_ids=[group.group])
    assert isinstance(first, dict)
    epoch = int(first["groups"][0]["group_epoch"])
    group.beat("a", "a", epoch)
    group.beat("a, an epoch to come", "a", epoch + 1)
    group.beat("a, an epoch before", "a", epoch - 1)
    group.join("b joins, static", "b", topic, instance_id="i")
    group.join("b2 is too early", "b2", topic, instance_id="i")
    kept = share(group.beat("a owns all", "a", epoch, owned={topic_id: [0, 1, 2, 3]}), topic_id)
    group.beat("b waits", "b", epoch + 1, instance_id="i")
    group.beat("b without its instance", "b", epoch + 1)
    group.beat("b2 is fenced", "b2", epoch + 1, instance_id="i")
    group.beat("b of another instance", "b", epoch + 1, instance_id="j")
    group.beat("a lets go", "a", epoch, owned={topic_id: kept})
    group.beat("a missed the answer", "a", epoch, owned={topic_id: kept})
    group.beat("a missed it and says nothing", "a", epoch)
    group.beat("b gets its share", "b", epoch + 1, instance_id="i")
    s.call("consumer_group_describe", 1, "two members", group_ids=[group.group])
    group.beat("a says everything", "a", epoch + 1, owned={topic_id: kept}, rebalance_timeout=10_000,
               subscribed_topic_names=[topic])  # fmt: skip
    group.join("a joins again", "a", topic)
    group.beat("a reads more", "a", epoch + 1, subscribed_topic_names=[topic, more])
    group.beat("a goes on", "a", epoch + 2, owned={topic_id: kept})
    group.beat("b goes for a while", "b", -2, instance_id="i")
    group.join("b2 takes over", "b2", topic, instance_id="i")
    group.beat("b is back", "b", epoch + 2, instance_id="i")
    for member, instance in (("a", None), ("b2", "i")):
        group.beat(f"{member} leaves", member, -1, instance_id=instance)
    s.call("consumer_group_describe", 1, "nobody is left", group_ids=[group.group])


@scenario
def consumer_groups_are_described(s: Session) -> None:
    topic = s.topic(partitions=2)
    group, classic = Members(s, s.name("g")), s.name("classic")
    ready(s, group.group, classic)
    stable_member(s, classic)
    group.join("one with everything", "m", topic, instance_id="i", rack_id="r", server_assignor="range")
    for version in (0, 1):
        for who in (group.group, classic, s.name("nobody"), ""):
            s.call("consumer_group_describe", version, who or "a group without a name", group_ids=[who],
                   include_authorized_operations=False)  # fmt: skip
        s.call("consumer_group_describe", version, "of none", group_ids=[])
        s.call("consumer_group_describe", version, "what may be done", group_ids=[group.group],
               include_authorized_operations=True)  # fmt: skip
    s.call("describe_groups", 6, "as if it were classic", groups=[group.group])


@scenario
def consumer_groups_that_are_full(s: Session) -> None:
    topic = s.topic()
    group = Members(s, s.name("g"))
    ready(s, group.group)
    for number in range(1, 6):
        group.join(f"member {number}", f"m{number}", topic)


@scenario
def subscriptions_by_pattern(s: Session) -> None:
    topic = s.topic("alpha")
    group = Members(s, s.name("g"))
    ready(s, group.group)
    pattern = f"{s.name('')}al.*"
    answer = group.join("by pattern", "m", subscribed_topic_regex=pattern)
    epoch = int(answer["member_epoch"])
    s.until(
        lambda answer: answer["groups"][0]["group_epoch"] > epoch,
        "consumer_group_describe", 1, "once it is resolved", group_ids=[group.group],
    )  # fmt: skip
    group.beat("beats", "m", epoch)
    described = s.ask("consumer_group_describe", 1, group_ids=[group.group])
    assert isinstance(described, dict)
    epoch = int(described["groups"][0]["group_epoch"])
    group.beat("another pattern that fits nothing", "m", epoch, subscribed_topic_regex=s.name("none"))
    group.beat("by name again", "m", epoch, subscribed_topic_regex="", subscribed_topic_names=[topic])


@scenario
def members_of_consumer_groups_commit(s: Session) -> None:
    topic = s.topic()
    group = Members(s, s.name("g"))
    ready(s, group.group)
    epoch = int(group.join("joins", "m", topic)["member_epoch"])
    for version in range(2, 11):
        for label, generation, who in (
            ("a member", epoch, "m"),
            ("the epoch before", epoch - 1, "m"),
            ("an epoch to come", epoch + 1, "m"),
            ("without an epoch", -1, "m"),
            ("a stranger", epoch, "stranger"),
            ("on its own", -1, ""),
        ):
            commit(s, group.group, (0, version), topic=topic, version=version, generation=generation, member=who,
                   label=label)  # fmt: skip
    for version in (9, 10):
        for label, generation, one in (
            ("as a member", epoch, "m"),
            ("the epoch before", epoch - 1, "m"),
            ("an epoch to come", epoch + 1, "m"),
            ("a stranger", epoch, "stranger"),
            ("nobody", -1, None),
        ):
            fetch_offsets(s, group.group, topic, 0, version=version, member=one, epoch=generation, label=label)
    group.beat("leaves", "m", -1)
    commit(s, group.group, (0, 99), topic=topic, label="on its own, to an empty group")
    fetch_offsets(s, group.group, topic, 0)


@scenario
def a_classic_member_joins_a_consumer_group(s: Session) -> None:
    topic = s.topic(partitions=2)
    group = Members(s, s.name("g"))
    ready(s, group.group)
    group.join("of the new protocol", "m", topic)
    said = subscription(topic)
    for label, more in (
        ("without protocols", {"protocols": ()}),
        ("of another type", {"protocol_type": "connect"}),
        ("that cannot be read", {"metadata": b"x"}),
    ):
        join(s, group.group, label=label, **more)
    member = str(join(s, group.group, label="for an id", metadata=said)["member_id"])
    answer = join(s, group.group, member, label="with the id", metadata=said)
    generation = int(answer["generation_id"])
    sync(s, group.group, generation, member)
    beat(s, group.group, generation, member)
    beat(s, group.group, generation + 5, member, label="a generation to come")
    beat(s, group.group, generation, "stranger", label="a stranger")
    commit(s, group.group, (0, 1), topic=topic, generation=generation, member=member)
    s.call("describe_groups", 6, groups=[group.group])
    leave(s, group.group, member)
    group.beat("leaves", "m", -1)


@scenario
def a_consumer_joins_a_classic_group(s: Session) -> None:
    topic = s.topic(partitions=2)
    odd, mixed, empty, begun = s.name("odd"), s.name("mixed"), s.name("empty"), s.name("begun")
    ready(s, odd, mixed, empty, begun)
    stable_member(s, odd, metadata=b"x")
    Members(s, odd).join("the others cannot be read", "m", topic)
    member = stable_member(s, mixed, metadata=subscription(topic))
    Members(s, mixed).join("an assignment that cannot be read", "m", topic)
    beat(s, mixed, 1, member)
    leave(s, empty, stable_member(s, empty))
    Members(s, empty).join("an empty group", "m", topic)
    coming = new_member(s, begun)
    Members(s, begun).join("a group that has only given out a member id", "m", topic)
    join(s, begun, coming, label="the member with that id", metadata=subscription(topic))
    Members(s, s.name("nobody")).beat("a group that is not there", "m", 3)
    s.call("consumer_group_describe", 1, "converted", group_ids=[empty])
