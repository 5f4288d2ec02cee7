"""What depends on rights while they change: parked fetches, sessions, transactions, passwords."""

from __future__ import annotations

from typing import Any

from tests.differential.batches import batch
from tests.differential.entities import read_response, request_frame
from tests.differential.session import CLOSED
from tests.support.authorization_rows import GROUP, MISSING, SHARERS, TOPIC, grant, need
from tests.support.logged_in import LoggedIn

DENIED = "29 topic_authorization_failed"


def fetch(**more: Any) -> dict[str, Any]:
    partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 100_000, "current_leader_epoch": -1,
                 "last_fetched_epoch": -1, "log_start_offset": -1}  # fmt: skip
    topics = [{"topic": TOPIC, "partitions": [partition]}]
    return {"replica_id": -1, "max_wait": 0, "min_bytes": 0, "max_bytes": 100_000, "session_epoch": -1,
            "topics": topics, **more}  # fmt: skip


def produce(topic: str, **more: Any) -> dict[str, Any]:
    rows = [{"name": topic, "partition_data": [{"index": 0, "records": batch(1)}]}]
    return {"acks": 1, "timeout": 5000, "topic_data": rows, **more}


def test_a_right_that_is_removed_stops_a_parked_fetch(admin: LoggedIn, alice: LoggedIn) -> None:
    grant(admin, "User:alice", need("topic read"))
    end = admin.ask("list_offsets", 7, replica_id=-1, topics=[{"name": TOPIC, "partitions": [{"timestamp": -1}]}])
    assert isinstance(end, dict)
    waiting = fetch(max_wait=600_000, min_bytes=1)
    waiting["topics"][0]["partitions"][0]["fetch_offset"] = end["topics"][0]["partitions"][0]["offset"]
    alice.ask("fetch", 11, **fetch())
    parked = LoggedIn("parked", alice.host, alice.port, user="alice", password=alice.password)
    parked.ask("api_versions", 0)
    parked.send(request_frame("fetch", 11, waiting))
    grant(admin, "User:alice")
    frame = parked.receive(seconds_max=60)
    parked.hang_up()
    assert isinstance(frame, bytes)
    answer = read_response("fetch", 11, frame)
    assert answer["responses"][0]["partitions"][0]["error_code"] == DENIED


def test_a_fetch_session_belongs_to_its_principal(admin: LoggedIn, alice: LoggedIn, bob: LoggedIn) -> None:
    grant(admin, "User:alice", need("topic read"))
    grant(admin, "User:bob", need("topic read"))
    begun = alice.ask("fetch", 11, **fetch(session_epoch=0))
    assert isinstance(begun, dict) and begun["session_id"]
    session = {"session_id": begun["session_id"], "session_epoch": 1, "topics": []}
    stolen = bob.ask("fetch", 11, **fetch(**session))
    assert isinstance(stolen, dict) and stolen["error_code"].startswith("70 ")
    # Nor can another principal end it.
    bob.ask("fetch", 11, **fetch(session_id=begun["session_id"], session_epoch=-1))
    own = alice.ask("fetch", 11, **fetch(**session))
    assert isinstance(own, dict) and own["error_code"] == "0 none"
    # The session keeps no right.
    grant(admin, "User:alice")
    denied = alice.ask("fetch", 11, **fetch(**session | {"session_epoch": 2}))
    assert isinstance(denied, dict) and denied["responses"][0]["partitions"][0]["error_code"] == DENIED


def test_a_denied_write_without_a_response_closes_the_connection(admin: LoggedIn, alice: LoggedIn) -> None:
    grant(admin, "User:alice")
    assert alice.ask("produce", 9, **produce(TOPIC, acks=0)) == CLOSED


def test_one_request_is_carried_out_for_the_topics_that_are_allowed(admin: LoggedIn, alice: LoggedIn) -> None:
    grant(admin, "User:alice", need("topic write"))
    both = produce(TOPIC)
    both["topic_data"] += produce(MISSING)["topic_data"]
    answer = alice.ask("produce", 9, **both)
    assert isinstance(answer, dict)
    codes = {each["name"]: each["partition_responses"][0]["error_code"] for each in answer["responses"]}
    assert codes == {TOPIC: "0 none", MISSING: DENIED}


def test_a_transaction_does_not_gain_partitions_that_its_producer_may_not_write(
    admin: LoggedIn, alice: LoggedIn
) -> None:
    name = "sneaky"
    grant(admin, "User:alice", need("txn write", name=name), need("txn describe", name=name), need("topic describe"))
    admin.ask("find_coordinator", 4, key_type=1, coordinator_keys=[name])
    begun = alice.until(
        lambda answer: answer["error_code"] == "0 none", "init_producer_id", 4, transactional_id=name,
        transaction_timeout=60_000, producer_id=-1, producer_epoch=-1,
    )  # fmt: skip
    records = batch(1, attributes=0x10, producer_id=begun["producer_id"], producer_epoch=0, base_sequence=0)
    written = produce(TOPIC, acks=-1, transactional_id=name)
    written["topic_data"][0]["partition_data"][0]["records"] = records
    answer = alice.ask("produce", 12, **written)
    assert isinstance(answer, dict) and answer["responses"][0]["partition_responses"][0]["error_code"] == DENIED
    listed = admin.ask("list_transactions", 0)
    assert isinstance(listed, dict)
    states = {each["transactional_id"]: each["transaction_state"] for each in listed["transaction_states"]}
    assert states[name] == "Empty"


def test_a_right_on_the_cluster_does_not_change_the_password_of_a_super_user(admin: LoggedIn, alice: LoggedIn) -> None:
    grant(admin, "User:alice", need("cluster alter"))
    new = {"mechanism": 1, "iterations": 4096, "salt": b"salt", "salted_password": b"p" * 32}
    upsertions = [{"name": name, **new} for name in ("admin", "carol")]
    answer = alice.ask("alter_user_scram_credentials", 0, deletions=[], upsertions=upsertions)
    assert isinstance(answer, dict)
    codes = {each["user"]: each["error_code"] for each in answer["results"]}
    assert codes == {"admin": "31 cluster_authorization_failed", "carol": "0 none"}


def test_authorized_operations_are_those_of_the_client(admin: LoggedIn, alice: LoggedIn) -> None:
    grant(admin, "User:alice", need("topic write"), need("group read"))
    wanted = {"topics": [{"name": TOPIC}], "include_topic_authorized_operations": True,
              "include_cluster_authorized_operations": True}  # fmt: skip
    answer = alice.ask("metadata", 9, **wanted)
    assert isinstance(answer, dict)
    assert answer["topics"][0]["topic_authorized_operations"] == 1 << 4 | 1 << 8
    assert answer["cluster_authorized_operations"] == 0
    group = alice.ask("describe_groups", 5, groups=[GROUP], include_authorized_operations=True)
    assert isinstance(group, dict) and group["groups"][0]["authorized_operations"] == 1 << 3 | 1 << 8
    cluster = alice.ask("describe_cluster", 0, include_cluster_authorized_operations=True)
    assert isinstance(cluster, dict) and cluster["cluster_authorized_operations"] == 0
    all_of_it = admin.ask("metadata", 9, **wanted)
    assert isinstance(all_of_it, dict) and all_of_it["topics"][0]["topic_authorized_operations"] == 3576


def test_existence_does_not_leak(admin: LoggedIn, alice: LoggedIn) -> None:
    grant(admin, "User:alice")
    for api, version, values in (
        ("metadata", 9, lambda name: {"topics": [{"name": name}], "allow_auto_topic_creation": True}),
        ("list_offsets", 7, lambda name: {"topics": [{"name": name, "partitions": [{"timestamp": -1}]}]}),
        ("describe_topic_partitions", 0, lambda name: {"topics": [{"name": name}], "response_partition_limit": 5}),
        ("delete_topics", 5, lambda name: {"topic_names": [name], "timeout": 1000}),
        ("describe_configs", 4, lambda name: {"resources": [{"resource_type": 2, "resource_name": name}]}),
        ("delete_records", 2, lambda name: {"topics": [{"name": name, "partitions": [{"offset": 0}]}]}),
    ):
        answers = [alice.ask(api, version, **values(name)) for name in (TOPIC, MISSING)]
        texts = [str(answer).replace(TOPIC, "x").replace(MISSING, "x") for answer in answers]
        assert texts[0] == texts[1], api


def test_a_member_of_a_share_group_needs_the_right_to_read_for_each_request(admin: LoggedIn, alice: LoggedIn) -> None:
    group = need("group read", name=SHARERS)
    grant(admin, "User:alice", group, need("topic read"), need("topic describe"))
    topic_id = admin.topic_id(TOPIC)
    member = {"group_id": SHARERS, "member_id": "BAAAAAAAAAAAAAAAAAAAAQ"}
    partition: dict[str, Any] = {"partition_index": 0}
    topics = [{"topic_id": topic_id, "partitions": [partition]}]
    limits = {"max_wait": 0, "min_bytes": 0, "max_bytes": 1000, "max_records": 1, "batch_size": 1}
    begun = alice.ask("share_fetch", 1, **member, **limits, share_session_epoch=0, topics=topics)
    assert isinstance(begun, dict) and begun["error_code"] == "0 none"
    grant(admin, "User:alice", group)
    batches = [{"first_offset": 0, "last_offset": 0, "acknowledge_types": [1]}]
    partition["acknowledgement_batches"] = batches
    answer = alice.ask("share_acknowledge", 1, **member, share_session_epoch=1, topics=topics)
    assert isinstance(answer, dict)
    assert answer["responses"][0]["partitions"][0]["error_code"] == DENIED


def test_offsets_of_a_share_group_are_deleted_only_for_topics_that_may_be_read(
    admin: LoggedIn, alice: LoggedIn
) -> None:
    group = "rows-idle-sharers"
    start = [{"topic_name": TOPIC, "partitions": [{"partition_index": 0, "start_offset": 0}]}]
    admin.until(
        lambda answer: answer["error_code"] == "0 none"
        and answer["responses"][0]["partitions"][0]["error_code"] == "0 none",
        "alter_share_group_offsets", 0, group_id=group, topics=start,
    )  # fmt: skip
    wanted: dict[str, Any] = {"group_id": group, "topics": [{"topic_name": TOPIC}]}
    for grants, expected in (((), DENIED), ((need("topic read"),), "0 none")):
        grant(admin, "User:alice", need("group delete", name=group), *grants)
        answer = alice.ask("delete_share_group_offsets", 0, **wanted)
        assert isinstance(answer, dict) and answer["responses"][0]["error_code"] == expected, answer
