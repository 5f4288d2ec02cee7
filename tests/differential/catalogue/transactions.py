"""Transactions with single requests: begin, write, commit offsets and end, in every version and state."""

from __future__ import annotations

from typing import Any, NamedTuple

from tests.differential.batches import batch
from tests.differential.catalogue.requests import fetch, fetch_partition
from tests.differential.entities import request_frame
from tests.differential.scenario import scenario
from tests.differential.session import Answer, Session
from tests.support.eventually import eventually

TRANSACTIONAL = 0x10
BUSY = (
    "14 coordinator_load_in_progress",
    "15 coordinator_not_available",
    "16 not_coordinator",
    "51 concurrent_transactions",
)
UNVERIFIED = "19 not_enough_replicas"
"""Kafka's response to a transactional write while the coordinator still ends the transaction before it."""


class Who(NamedTuple):
    name: str
    producer_id: int
    epoch: int

    @property
    def fields(self) -> dict[str, Any]:
        return {"transactional_id": self.name, "producer_id": self.producer_id, "producer_epoch": self.epoch}


def begin(s: Session, name: str = "id", label: str = "") -> Who:
    """Take over a transactional id. Kafka creates its internal topic on the first request."""
    name = s.name(name)
    s.until(
        lambda answer: answer["coordinators"][0]["error_code"] == "0 none",
        "find_coordinator", 4, key_type=1, coordinator_keys=[name],
    )  # fmt: skip
    answer = s.until(settled, "init_producer_id", 5, label, transactional_id=name, transaction_timeout=60_000,
                     producer_id=-1, producer_epoch=-1)  # fmt: skip
    return Who(name, int(answer["producer_id"]), int(answer["producer_epoch"]))


def settled(answer: Answer) -> bool:
    return answer.get("error_code") not in BUSY


def add(s: Session, who: Who, topic: str, *partitions: int, version: int = 3, label: str = "") -> Answer:
    """Add partitions; up to version 3 a request has one transaction."""
    topics = [{"name": topic, "partitions": list(partitions)}]
    old = {f"v3_and_below_{name}": value for name, value in who.fields.items()}
    return s.until(_are_settled, "add_partitions_to_txn", version, label, **old, v3_and_below_topics=topics)


def verify(s: Session, who: Who, topic: str, version: int, label: str, *, only: bool = True) -> None:
    """Send the request as a broker does, from version 4 on."""
    row = {**who.fields, "verify_only": only, "topics": [{"name": topic, "partitions": [0, 1]}]}
    s.until(_are_settled, "add_partitions_to_txn", version, f"{label}, verify only {only}", transactions=[row])


def _are_settled(answer: Answer) -> bool:
    rows = answer.get("results_by_topic_v3_and_below") or [
        row for one in answer.get("results_by_transaction", []) for row in one["topic_results"]
    ]
    return not any(one["partition_error_code"] in BUSY for row in rows for one in row["results_by_partition"])


def end(s: Session, who: Who, *, commit: bool, version: int = 4, label: str = "") -> Who:
    answer = s.until(settled, "end_txn", version, f"{'commit' if commit else 'abort'} {label}".strip(), **who.fields,
                     committed=commit)  # fmt: skip
    if version >= 5 and answer.get("error_code") == "0 none":
        return who._replace(producer_id=answer["producer_id"], epoch=answer["producer_epoch"])
    return who


def write(
    s: Session,
    who: Who,
    topic: str,
    *,
    sequence: int = 0,
    version: int = 11,
    partition: int = 0,
    label: str = "",
    attributes: int = TRANSACTIONAL,
) -> None:
    data = batch(
        2, producer_id=who.producer_id, producer_epoch=who.epoch, base_sequence=sequence, attributes=attributes
    )

    def is_settled(answer: Answer) -> bool:
        return answer["responses"][0]["partition_responses"][0]["error_code"] not in (*BUSY, UNVERIFIED)

    row = {"name": topic, "topic_id": s.topic_id(topic), "partition_data": [{"index": partition, "records": data}]}
    s.until(is_settled, "produce", version, label, acks=-1, timeout=5000, topic_data=[row], transactional_id=who.name)


def mistakes(who: Who) -> list[tuple[str, Who]]:
    return [
        ("an older epoch", who._replace(epoch=who.epoch - 1)),
        ("a newer epoch", who._replace(epoch=who.epoch + 1)),
        ("another producer", who._replace(producer_id=who.producer_id + 100_000)),
        ("an unknown id", who._replace(name=f"{who.name}-unknown")),
        ("an empty id", who._replace(name="")),
    ]


def stable(s: Session, topic: str) -> None:
    """Wait until the topic has no open transaction."""

    def ask(isolation: int) -> Any:
        rows = [{"name": topic, "partitions": [{"partition_index": 0, "timestamp": -1}]}]
        answer = s.ask("list_offsets", 7, replica_id=-1, isolation_level=isolation, topics=rows)
        assert isinstance(answer, dict)
        return answer["topics"][0]["partitions"][0]["offset"]

    eventually(lambda: ask(0) == ask(1), what=f"the end of the transaction in {topic}")


@scenario
def transactional_producer_ids(s: Session) -> None:
    who = begin(s)
    for version in range(6):
        s.call("init_producer_id", version, transactional_id=who.name, transaction_timeout=60_000, producer_id=-1,
               producer_epoch=-1)  # fmt: skip
    for timeout in (0, -1, 900_000, 900_001):
        s.call("init_producer_id", 4, f"timeout {timeout}", transactional_id=who.name, transaction_timeout=timeout,
               producer_id=-1, producer_epoch=-1)  # fmt: skip
    now = begin(s, label="again")
    for version in (3, 4):
        for label, one in mistakes(now)[:3]:
            s.call("init_producer_id", version, f"goes on with {label}", **one.fields, transaction_timeout=60_000)
    s.call("init_producer_id", 4, "goes on", **now.fields, transaction_timeout=60_000)
    s.call("init_producer_id", 4, "goes on, sent again", **now.fields, transaction_timeout=60_000)
    s.call("init_producer_id", 4, "an id without an epoch", **now._replace(epoch=-1).fields, transaction_timeout=60_000)
    s.call("init_producer_id", 4, "an unknown id goes on", **now._replace(name=s.name("unknown")).fields,
           transaction_timeout=60_000)  # fmt: skip


@scenario
def partitions_are_added_to_transactions(s: Session) -> None:
    topic = s.topic(partitions=2)
    who = begin(s)
    for version in range(4):
        add(s, who, topic, 0, version=version)
        add(s, who, topic, 0, 1, 9, version=version, label="one is missing")
        add(s, who, s.name("missing"), 0, version=version, label="no such topic")
        add(s, who, topic, version=version, label="none")
        for label, one in mistakes(who):
            add(s, one, topic, 0, version=version, label=label)
        end(s, who, commit=False)


@scenario
def partitions_are_verified_for_transactions(s: Session) -> None:
    topic = s.topic(partitions=2)
    who = begin(s)
    for version in (4, 5):
        for only in (True, False):
            for label, one in [("good", who), *mistakes(who)]:
                verify(s, one, topic, version, label, only=only)
        verify(s, who, topic, version, "after they were added")
        end(s, who, commit=False)


@scenario
def transactions_end_in_every_state(s: Session) -> None:
    topic = s.topic()
    for version in range(5):
        who = begin(s, f"v{version}")
        for commit in (True, False):
            end(s, who, commit=commit, version=version, label="empty")
            for label, one in mistakes(who):
                end(s, one, commit=commit, version=version, label=label)
        for first in (True, False):
            add(s, who, topic, 0)
            end(s, who, commit=first, version=version, label="ongoing")
            for second in (True, False):
                end(s, who, commit=second, version=version, label=f"after commit {first}")


@scenario
def transactions_of_version_two_end_in_every_state(s: Session) -> None:
    topic = s.topic()
    who = begin(s)
    end(s, who, commit=True, version=5, label="empty")
    who = end(s, who, commit=False, version=5, label="empty")
    for first in (True, False):
        write(s, who, topic, version=12)
        for label, one in mistakes(who):
            end(s, one, commit=first, version=5, label=label)
        ended = end(s, who, commit=first, version=5, label="ongoing")
        for second in (True, False):
            end(s, who, commit=second, version=5, label=f"the one before again, after commit {first}")
        stable(s, topic)
        who = ended
    end(s, who, commit=True, version=5, label="nothing open")
    fetch(s, topic, fetch_partition(0), label="all of it")
    fetch(s, topic, fetch_partition(0), label="committed", isolation_level=1)


@scenario
def transactional_writes_in_every_version(s: Session) -> None:
    topic = s.topic(partitions=2)
    who = begin(s)
    sequence = 0
    for version in range(3, 12):
        write(s, who, topic, sequence=sequence, version=version, label="outside")
        add(s, who, topic, 0)
        write(s, who, topic, sequence=sequence, version=version, label="inside")
        write(s, who, topic, sequence=sequence, version=version, label="again")
        write(s, who, topic, sequence=sequence + 2, version=version, label="not of the transaction", attributes=0)
        write(s, who, topic, partition=1, version=version, label="a partition that was not added")
        end(s, who, commit=version % 2 == 0)
        stable(s, topic)
        sequence += 2
    for label, one in mistakes(who)[:4]:
        write(s, one, topic, sequence=sequence, label=label)
    fetch(s, topic, fetch_partition(0), label="all of it")
    fetch(s, topic, fetch_partition(0), label="committed", isolation_level=1)


@scenario
def transactional_writes_of_version_two(s: Session) -> None:
    topic = s.topic(partitions=2)
    who = begin(s)
    for version in (12, 13):
        for label, one in mistakes(who)[:4]:
            write(s, one, topic, version=version, label=label)
        write(s, who, topic, sequence=4, version=version, label="not from zero")
        write(s, who, topic, version=version, label="first")
        write(s, who, topic, sequence=2, version=version, label="second")
        write(s, who, topic, sequence=2, version=version, label="second again")
        ended = end(s, who, commit=True, version=5)
        stable(s, topic)
        write(s, who, topic, sequence=4, version=version, label="late")
        who = ended


@scenario
def offsets_are_committed_in_transactions(s: Session) -> None:
    topic = s.topic()
    group = s.name("g")
    s.until(
        lambda answer: answer["coordinators"][0]["error_code"] == "0 none",
        "find_coordinator", 4, key_type=0, coordinator_keys=[group],
    )  # fmt: skip
    who = begin(s)
    for version in range(5):
        _offsets(s, who, group, topic, version, label="not added")
        s.until(settled, "add_offsets_to_txn", version, **who.fields, group_id=group)
        for label, one in mistakes(who):
            s.until(settled, "add_offsets_to_txn", version, label, **one.fields, group_id=group)
            _offsets(s, one, group, topic, version, label=label)
        s.call("add_offsets_to_txn", version, "an empty group", **who.fields, group_id="")
        _offsets(s, who, group, topic, version, offset=version + 1)
        _offsets(s, who, group, s.name("missing"), version, label="no such topic")
        _offsets(s, who, group, topic, version, label="of a member that is none", member="nobody", generation=3)
        _stored(s, group, topic, "open", stable_only=True)
        _stored(s, group, topic, "open", stable_only=False)
        end(s, who, commit=version % 2 == 0)
        _settled_offset(s, group, topic)
        _stored(s, group, topic, "ended", stable_only=True)
    _offsets(s, who, group, topic, 5, offset=77)
    for label, one in mistakes(who):
        _offsets(s, one, group, topic, 5, label=label)
    end(s, who, commit=True, version=5)
    _settled_offset(s, group, topic)
    _stored(s, group, topic, "ended", stable_only=True)


def _offsets(
    s: Session,
    who: Who,
    group: str,
    topic: str,
    version: int,
    *,
    offset: int = 50,
    label: str = "",
    member: str = "",
    generation: int = -1,
) -> None:
    row = {"partition_index": 0, "committed_offset": offset, "committed_leader_epoch": -1, "committed_metadata": "m"}

    def is_settled(answer: Answer) -> bool:
        return answer["topics"][0]["partitions"][0]["error_code"] not in BUSY

    s.until(
        is_settled, "txn_offset_commit", version, label, **who.fields, group_id=group, member_id=member,
        generation_id=generation, topics=[{"name": topic, "partitions": [row]}],
    )  # fmt: skip


def _question(group: str, topic: str, *, stable_only: bool) -> dict[str, Any]:
    topics = [{"name": topic, "partition_indexes": [0]}]
    return {"group_id": group, "topics": topics, "require_stable": stable_only}


def _stored(s: Session, group: str, topic: str, label: str, *, stable_only: bool) -> None:
    s.call("offset_fetch", 7, f"{label}, stable {stable_only}", **_question(group, topic, stable_only=stable_only))


def _settled_offset(s: Session, group: str, topic: str) -> None:
    def holds(answer: Answer) -> bool:
        return not str(answer["topics"][0]["partitions"][0]["error_code"]).startswith("88")

    s.until(holds, "offset_fetch", 7, **_question(group, topic, stable_only=True))


@scenario
def transaction_markers_by_hand(s: Session) -> None:
    topic = s.topic(partitions=2)
    who = begin(s)
    for version in (1, 2):
        write(s, who, topic, version=12)
        for label, one, coordinator in (
            ("an older epoch", who._replace(epoch=who.epoch - 1), 0),
            ("a coordinator of -1", who, -1),
            ("good", who, 0),
            ("again", who, 0),
        ):
            marker = {
                "producer_id": one.producer_id,
                "producer_epoch": one.epoch,
                "transaction_result": False,
                "coordinator_epoch": coordinator,
                "transaction_version": 0,
                "topics": [{"name": topic, "partition_indexes": [0]}],
            }
            s.call("write_txn_markers", version, label, markers=[marker])
        missing = [{"name": topic, "partition_indexes": [7]}, {"name": s.name("missing"), "partition_indexes": [0]}]
        s.call("write_txn_markers", version, "of no partition", markers=[{**marker, "topics": missing}])
        s.call("write_txn_markers", version, "none", markers=[])
        who = end(s, who, commit=False, version=5)
        stable(s, topic)


def describe(s: Session, label: str, names: list[str]) -> None:
    """Decode the response here: kio rejects a transaction that has not started."""
    frame = s.exchange(request_frame("describe_transactions", 0, {"transactional_ids": names}))
    s.note(f"describe_transactions v0 {label}", frame if isinstance(frame, str) else _described(frame))


def _described(frame: bytes) -> Answer:
    # After the correlation id, its tags and the throttle time. All strings and counts here are shorter than 127.
    place = 4 + 1 + 4

    def number(size: int) -> int:
        nonlocal place
        place += size
        return int.from_bytes(frame[place - size : place], "big", signed=True)

    def text() -> str:
        nonlocal place
        size = number(1) - 1
        place += size
        return frame[place - size : place].decode()

    def topic() -> Answer:
        found = {"topic": text(), "partitions": [number(4) for _ in range(number(1) - 1)]}
        number(1)
        return found

    def state() -> Answer:
        found: Answer = {
            "error_code": number(2),
            "transactional_id": text(),
            "transaction_state": text(),
            "transaction_timeout": number(4),
            "transaction_start_time": number(8),
            "producer_id": number(8),
            "producer_epoch": number(2),
            "topics": [topic() for _ in range(number(1) - 1)],
        }
        number(1)
        return found

    return {"transaction_states": [state() for _ in range(number(1) - 1)], "left_over": len(frame) - place - 1}


@scenario
def transactions_are_described_and_listed(s: Session) -> None:
    topic = s.topic(partitions=3)
    empty, ongoing, done = begin(s, "empty"), begin(s, "ongoing"), begin(s, "done")
    write(s, ongoing, topic, version=12)
    write(s, ongoing, topic, version=12, partition=1)
    # In a separate partition: Kafka returns the producers of a partition in the order of a hash table.
    write(s, done, topic, version=12, partition=2)
    end(s, done, commit=True, version=5)

    def is_complete(answer: Answer) -> bool:
        return str(answer["transaction_states"][0]["transaction_state"]).startswith("Complete")

    s.until(is_complete, "describe_transactions", 0, "ended", transactional_ids=[done.name])
    for label, names in (
        ("three", [empty.name, ongoing.name, done.name]),
        ("unknown", [s.name("unknown")]),
        ("an empty one", [""]),
        ("none", []),
        ("one twice", [empty.name, empty.name]),
    ):
        describe(s, label, names)
    for version in range(3):
        s.call("list_transactions", version, "of one producer", producer_id_filters=[ongoing.producer_id])
        for states in (["Ongoing"], ["Nonsense"], ["Ongoing", "Nonsense", "Empty"], ["ongoing"]):
            s.call("list_transactions", version, f"in {states}", state_filters=states,
                   producer_id_filters=[ongoing.producer_id, empty.producer_id])  # fmt: skip
    for duration in (0, 10_000_000):
        s.call("list_transactions", 1, f"longer than {duration}", duration_filter=duration,
               producer_id_filters=[ongoing.producer_id])  # fmt: skip
    for pattern in (f"{s.name('')}.*", "nothing", "", "("):
        s.call("list_transactions", 2, f"like {pattern[-10:]}", transactional_id_pattern=pattern, duration_filter=-1,
               producer_id_filters=[ongoing.producer_id])  # fmt: skip
    rows = [{"name": topic, "partition_indexes": [0, 1, 2, 9]}, {"name": s.name("missing"), "partition_indexes": [0]}]
    s.call("describe_producers", 0, topics=rows)
    s.call("describe_producers", 0, "none", topics=[])
    end(s, ongoing, commit=False, version=5)
