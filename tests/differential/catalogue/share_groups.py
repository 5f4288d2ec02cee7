"""Share groups (KIP-932): heartbeats, descriptions, fetches, acknowledgements and offsets, APIs 76-79 and 90-92."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tests.differential.batches import batch
from tests.differential.catalogue.group_requests import beat, commit, join, leave, ready, sync
from tests.differential.catalogue.requests import produce
from tests.differential.scenario import scenario
from tests.differential.session import Answer, Session

GROUP_CONFIG = 32
UNKNOWN_ID = "7c0a4a1c-0d9b-5f0a-9a55-6f6e2d67a8d1"
# For the first fetch of a partition, which the leader must load: that takes long on a busy machine. Kafka may answer
# later ones only at the end of their time, with records whose locks have expired by then.
LOADING_MS_MAX = 12_000
GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)


@dataclass
class Shared:
    """One share group on one topic, and the sessions of its members."""

    s: Session
    group: str
    topic: str
    topic_id: str = ""
    epochs: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.topic_id = self.s.topic_id(self.topic)

    def beat(self, label: str, member: str, epoch: int, *topics: str, record: bool = True, **more: Any) -> Answer:
        values = {"group_id": self.group, "member_id": member, "member_epoch": epoch, **more}
        names = values.pop("subscribed_topic_names", list(topics) or None)
        answer = self.s.ask("share_group_heartbeat", 1, **values, subscribed_topic_names=names)
        if record:
            self.s.note(f"share_group_heartbeat v1 {label}", answer)
        return answer if isinstance(answer, dict) else {}

    def join(self, member: str) -> int:
        """Join and wait until the member has partitions; return its epoch."""
        epoch = 0
        answer = self.beat("", member, 0, self.topic, record=False)
        while not (answer.get("assignment") or {}).get("topic_partitions"):
            epoch = int(answer.get("member_epoch", 0))
            answer = self.beat("", member, epoch, record=False)
        return int(answer["member_epoch"])

    def fetch(
        self,
        label: str,
        member: str,
        epoch: int,
        *,
        partitions: tuple[int, ...] = (0,),
        acknowledged: tuple[tuple[int, int, tuple[int, ...]], ...] = (),
        forgotten: tuple[int, ...] = (),
        version: int = 2,
        **more: Any,
    ) -> Answer:
        rows = [
            {
                "partition_index": index,
                "acknowledgement_batches": _batches(acknowledged),
                "partition_max_bytes": 1 << 20,
            }
            for index in partitions
        ]
        values: dict[str, Any] = {
            "group_id": self.group,
            "member_id": member,
            "share_session_epoch": epoch,
            "max_wait": 500,
            "min_bytes": 1,
            "max_bytes": 1 << 20,
            "max_records": 500,
            "batch_size": 500,
            "topics": [{"topic_id": more.pop("topic_id", self.topic_id), "partitions": rows}] if partitions else [],
            "forgotten_topics_data": [{"topic_id": self.topic_id, "partitions": list(forgotten)}] if forgotten else [],
            **more,
        }
        return self.s.call("share_fetch", version, label, **values)

    def acknowledge(
        self,
        label: str,
        member: str,
        epoch: int,
        *acknowledged: tuple[int, int, tuple[int, ...]],
        version: int = 2,
        index: int = 0,
        **more: Any,
    ) -> Answer:
        rows = [{"partition_index": index, "acknowledgement_batches": _batches(acknowledged)}]
        values = {
            "group_id": self.group,
            "member_id": member,
            "share_session_epoch": epoch,
            "topics": [{"topic_id": more.pop("topic_id", self.topic_id), "partitions": rows}] if acknowledged else [],
            **more,
        }
        return self.s.call("share_acknowledge", version, label, **values)

    def offsets(self, label: str, *, version: int = 1, **more: Any) -> Answer:
        asked = {"group_id": self.group, "topics": None, **more}
        return self.s.call("describe_share_group_offsets", version, label, groups=[asked])

    def leave(self, member: str) -> None:
        self.beat("leaves", member, -1)


def _batches(acknowledged: tuple[tuple[int, int, tuple[int, ...]], ...]) -> list[dict[str, Any]]:
    return [
        {"first_offset": first, "last_offset": last, "acknowledge_types": list(types)}
        for first, last, types in acknowledged
    ]


def _prepared(s: Session, *, partitions: int = 1, records: int = 0, **options: str) -> Shared:
    """Return a group that starts at the beginning of its topic."""
    topic = s.topic(partitions=partitions)
    shared = Shared(s, s.name("g"), topic)
    ready(s, shared.group)
    own = {"share.auto.offset.reset": "earliest", **{name.replace("_", "."): text for name, text in options.items()}}
    s.call(
        "incremental_alter_configs", 1, "of the group",
        resources=[{
            "resource_type": GROUP_CONFIG, "resource_name": shared.group,
            "configs": [{"name": name, "config_operation": 0, "value": text} for name, text in own.items()],
        }],
    )  # fmt: skip
    if records:
        produce(s, topic, batch(records))
    return shared


@scenario
def share_heartbeats_that_are_refused(s: Session) -> None:
    shared = _prepared(s)
    topic = shared.topic
    shared.beat("of no group", "a", 1)
    shared.beat("leaves no group", "a", -1)
    shared.beat("without topics", "a", 0)
    shared.beat("with an empty list of topics", "a", 0, subscribed_topic_names=[])
    shared.beat("without an id", "", 0, topic)
    shared.beat("a blank id", " ", 0, topic)
    shared.beat("an empty rack", "a", 0, topic, rack_id="")
    shared.beat("epoch -2", "a", -2, topic)
    shared.beat("epoch -3", "a", -3, topic)
    Shared(s, "", topic).beat("a group without a name", "a", 0, topic)
    shared.beat("a stranger of no group", "stranger", 5)


@scenario
def share_groups_from_end_to_end(s: Session) -> None:
    shared = _prepared(s, records=3)
    epoch = shared.join("a")
    shared.beat("a", "a", epoch)
    shared.beat("a, an epoch to come", "a", epoch + 1)
    shared.beat("a stranger", "stranger", epoch)
    shared.beat("a says its topics again", "a", epoch, shared.topic)
    described = s.ask("share_group_describe", 1, group_ids=[shared.group, s.name("nobody")])
    assert isinstance(described, dict)
    for group in described["groups"]:
        # How many epochs the start takes depends on when state is initialized.
        group["group_epoch"] = group["assignment_epoch"] = "any" if group["group_epoch"] else 0
        for member in group["members"]:
            member["member_epoch"] = "any"
    s.note("share_group_describe v1", described)
    s.call("list_groups", 5, "share groups", states_filter=[], types_filter=["share"])
    shared.fetch("opens", "a", 0, max_wait=LOADING_MS_MAX)
    shared.acknowledge("accepts", "a", 1, (0, 2, (ACCEPT,)))
    shared.fetch("nothing is left", "a", 2, partitions=(), max_wait=0)
    s.until(
        lambda answer: answer["groups"][0]["topics"][0]["partitions"][0]["lag"] == 0,
        "describe_share_group_offsets", 1, "at the end", groups=[{"group_id": shared.group, "topics": None}],
    )  # fmt: skip
    shared.acknowledge("closes", "a", -1)
    shared.leave("a")
    s.call("share_group_describe", 1, "empty", group_ids=[s.name("nobody")])


@scenario
def requests_for_groups_of_other_types(s: Session) -> None:
    shared = _prepared(s)
    group = shared.group
    epoch = shared.join("a")
    for version in (0, 5, 9):
        join(s, group, version=version, label="of a share group")
    join(s, group, label="of a share group, too short a session", session_timeout=1)
    join(s, group, "a", label="of a share group, with the id of its member")
    sync(s, group, epoch, "a", label="of a share group")
    beat(s, group, epoch, "a", label="of a share group")
    leave(s, group, "a", label="of a share group")
    for version in (8, 9):
        commit(s, group, (0, 1), topic=shared.topic, version=version, label="of a share group")
        commit(s, group, (0, 1), topic=shared.topic, version=version, generation=epoch, member="a", label="of a member")
    shared.beat("a", "a", epoch)


@scenario
def share_sessions(s: Session) -> None:
    shared = _prepared(s, records=4)
    shared.join("a")
    shared.fetch("continues none", "a", 1)
    shared.fetch("closes none", "a", -1)
    shared.acknowledge("of none", "a", 1, (0, 0, (ACCEPT,)))
    shared.acknowledge("opens", "a", 0, (0, 0, (ACCEPT,)))
    shared.acknowledge("closes none", "a", -1)
    shared.fetch("opens with acknowledgements", "a", 0, acknowledged=((0, 0, (ACCEPT,)),))
    shared.fetch("opens", "a", 0, max_wait=LOADING_MS_MAX)
    shared.fetch("an epoch to come", "a", 2)
    shared.acknowledge("an epoch to come", "a", 3, (0, 0, (ACCEPT,)))
    shared.fetch("continues", "a", 1, partitions=(), max_wait=0)
    shared.fetch("the epoch before", "a", 1)
    shared.fetch("forgets", "a", 2, partitions=(), forgotten=(0,), max_wait=0)
    shared.fetch("closes with acknowledgements", "a", -1, acknowledged=((0, 3, (ACCEPT,)),))
    shared.fetch("closed", "a", 4)


@scenario
def share_fetches_that_are_refused(s: Session) -> None:
    shared = _prepared(s, records=2)
    shared.join("a")
    Shared(s, "", shared.topic).fetch("a group without a name", "a", 0)
    shared.fetch("without a member", "", 0)
    shared.fetch("a long member id", "m" * 37, 0)
    shared.fetch("an unknown partition", "a", 0, partitions=(7,))
    shared.fetch("an unknown topic", "b", 0, topic_id=UNKNOWN_ID)
    shared.fetch("a renewal that fetches", "c", 0, is_renew_ack=True)
    # In Kafka, records that a closed session releases end no waiting fetch: the second one takes all of its time.
    for version, wait_ms in ((1, LOADING_MS_MAX), (2, 500)):
        shared.fetch("by a stranger", f"d{version}", 0, version=version, max_wait=wait_ms)
        shared.fetch("closes", f"d{version}", -1, version=version, partitions=())


@scenario
def acknowledgements_of_share_groups(s: Session) -> None:
    shared = _prepared(s, records=10)
    shared.join("a")
    shared.fetch("opens", "a", 0, max_wait=LOADING_MS_MAX)
    shared.acknowledge("no type", "a", 1, (0, 0, ()))
    shared.acknowledge("too many types", "a", 2, (0, 1, (ACCEPT, ACCEPT, ACCEPT)))
    shared.acknowledge("an unknown type", "a", 3, (0, 0, (5,)))
    shared.acknowledge("backwards", "a", 4, (3, 2, (ACCEPT,)))
    shared.acknowledge("out of order", "a", 5, (4, 5, (ACCEPT,)), (0, 1, (ACCEPT,)))
    shared.acknowledge("overlapping", "a", 6, (0, 3, (ACCEPT,)), (2, 5, (ACCEPT,)))
    shared.acknowledge("beyond the end", "a", 7, (9, 12, (ACCEPT,)))
    shared.acknowledge("a renewal in v1", "a", 8, (0, 0, (RENEW,)), version=1)
    shared.acknowledge("a renewal without its flag", "a", 9, (0, 0, (RENEW,)))
    shared.acknowledge("a renewal", "a", 10, (0, 0, (RENEW,)), is_renew_ack=True)
    shared.acknowledge("each type", "a", 11, (0, 3, (ACCEPT, RELEASE, REJECT, GAP)))
    shared.acknowledge("again", "a", 12, (0, 0, (ACCEPT,)))
    shared.acknowledge("a released one", "a", 13, (1, 1, (ACCEPT,)))
    shared.acknowledge("an unknown partition", "a", 14, (0, 0, (ACCEPT,)), index=7)
    shared.acknowledge("an unknown topic", "a", 15, (0, 0, (ACCEPT,)), topic_id=UNKNOWN_ID)
    shared.fetch("the released one again", "a", 16, partitions=())
    shared.fetch("opens", "b", 0, max_wait=0)
    shared.acknowledge("of another member", "b", 1, (5, 5, (ACCEPT,)))
    shared.acknowledge("the rest", "a", 17, (1, 1, (ACCEPT,)), (4, 9, (ACCEPT,)))
    shared.fetch("nothing is left", "a", 18, partitions=(), max_wait=0)
    shared.acknowledge("beyond the end, when nothing is left", "a", 19, (10, 10, (ACCEPT,)))


@scenario
def delivery_counts_of_share_groups(s: Session) -> None:
    shared = _prepared(s, records=8, share_delivery_count_limit="3")
    shared.join("a")
    shared.fetch("first", "a", 0, max_wait=LOADING_MS_MAX)
    shared.acknowledge("releases", "a", 1, (0, 7, (RELEASE,)))
    shared.fetch("second", "a", 2, partitions=())
    shared.acknowledge("releases", "a", 3, (0, 7, (RELEASE,)))
    shared.fetch("third", "a", 4, partitions=())


@scenario
def strict_limits_of_share_fetches(s: Session) -> None:
    shared = _prepared(s, records=10)
    shared.join("a")
    shared.fetch("three", "a", 0, max_records=3, batch_size=3, share_acquire_mode=1, max_wait=LOADING_MS_MAX)
    shared.fetch("three more", "b", 0, max_records=3, batch_size=3, share_acquire_mode=1)
    shared.fetch("the rest, at least one", "c", 0, max_records=1, batch_size=1)
    shared.acknowledge("releases", "b", 1, (3, 5, (RELEASE,)))
    shared.fetch("released ones", "c", 1, partitions=(), max_records=2, batch_size=2, share_acquire_mode=1)


@scenario
def offsets_of_share_groups(s: Session) -> None:
    shared = _prepared(s, records=5)
    topic = shared.topic
    rows = [{"partition_index": 0, "start_offset": 2}]
    shared.offsets("of no group")
    s.call("delete_share_group_offsets", 0, "of no group", group_id=shared.group, topics=[{"topic_name": topic}])
    shared.join("a")
    shared.fetch("opens", "a", 0, max_wait=LOADING_MS_MAX)
    shared.acknowledge("accepts", "a", 1, (0, 1, (ACCEPT,)))
    s.call("alter_share_group_offsets", 0, "in use", group_id=shared.group,
           topics=[{"topic_name": topic, "partitions": rows}])  # fmt: skip
    s.call("delete_share_group_offsets", 0, "in use", group_id=shared.group, topics=[{"topic_name": topic}])
    shared.acknowledge("closes", "a", -1)
    shared.leave("a")
    for version in (0, 1):
        named = [{"topic_name": topic, "partitions": [0]}, {"topic_name": s.name("nothing"), "partitions": [0]}]
        shared.offsets("of named topics", version=version, topics=named)
    s.call("alter_share_group_offsets", 0, "back", group_id=shared.group,
           topics=[{"topic_name": topic, "partitions": [*rows, {"partition_index": 7, "start_offset": 0}]},
                   {"topic_name": s.name("nothing"), "partitions": rows}])  # fmt: skip
    shared.offsets("altered", topics=[{"topic_name": topic, "partitions": [0]}])
    s.call("delete_share_group_offsets", 0, "of a topic", group_id=shared.group,
           topics=[{"topic_name": topic}, {"topic_name": s.name("nothing")}])  # fmt: skip
    shared.offsets("deleted", topics=[{"topic_name": topic, "partitions": [0]}])
    s.call("delete_groups", 2, "the group", groups_names=[shared.group])
    shared.offsets("of a deleted group")
