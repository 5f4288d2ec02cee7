"""Ways to learn about topics that a client may not describe: each was once open."""

from __future__ import annotations

import time
from http.client import HTTPConnection
from struct import pack
from typing import Any
from urllib.request import urlopen

import pytest

from penstock.model.topic import AUDIT
from penstock.testing import Broker
from tests.differential.entities import read_response, request_frame
from tests.security.conftest import AUTHORIZER, USERS
from tests.support.authorization_rows import TOPIC, grant, need
from tests.support.logged_in import LoggedIn
from tests.support.ports import HOST, free_ports
from tests.support.security import jaas

OPEN = "penetration-open"
GROUP = "penetration-group"
ASSIGNED_S_MAX = 60


@pytest.fixture(scope="module")
def open_topic(admin: LoggedIn) -> str:
    admin.ask("create_topics", 7, topics=[{"name": OPEN, "num_partitions": 2, "replication_factor": 1}], timeout=10_000)
    admin.settle(OPEN, 2)
    return OPEN


def subscription(*topics: str) -> bytes:
    names = b"".join(pack(">h", len(name)) + name.encode() for name in topics)
    return pack(">hi", 1, len(topics)) + names + pack(">ii", -1, 0)


def assigned(client: LoggedIn, member: LoggedIn, *topics: str) -> bytes:
    """Join a consumer group with the classic protocol; return the first assignment that has a topic."""
    joining: dict[str, Any] = {
        "group_id": GROUP, "session_timeout": 30_000, "rebalance_timeout": 30_000, "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": subscription(*topics)}],
    }  # fmt: skip
    beating: dict[str, Any] = {"group_id": GROUP, "member_id": "penetration-member-id-1", "topic_partitions": []}
    begun = member.until(
        lambda answer: answer["error_code"] == "0 none", "consumer_group_heartbeat", 0, **beating, member_epoch=0,
        rebalance_timeout=30_000, subscribed_topic_names=["penetration-none"],
    )  # fmt: skip
    epoch = begun["member_epoch"]
    known = client.ask("join_group", 5, member_id="", **joining)
    assert isinstance(known, dict)
    deadline = time.monotonic() + ASSIGNED_S_MAX
    while time.monotonic() < deadline:
        joined = client.ask("join_group", 5, member_id=known["member_id"], **joining)
        assert isinstance(joined, dict) and joined["error_code"] == "0 none", joined
        this = {"group_id": GROUP, "member_id": joined["member_id"], "generation_id": joined["generation_id"]}
        synced = client.ask("sync_group", 3, **this)
        if isinstance(synced, dict) and len(assignment := bytes.fromhex(synced["assignment"])) > len(subscription()):
            return assignment
        # The assignment is computed again with the heartbeat of any member.
        beat = member.ask("consumer_group_heartbeat", 0, **beating, member_epoch=epoch)
        if isinstance(beat, dict) and beat["error_code"] == "0 none":
            epoch = beat["member_epoch"]
        time.sleep(0.01)
    raise TimeoutError("the member was never assigned a partition")


def test_a_classic_member_of_a_consumer_group_learns_only_of_topics_that_it_may_describe(
    admin: LoggedIn, alice: LoggedIn, open_topic: str
) -> None:
    rights = need("group read", name=GROUP), need("topic read", name=open_topic)
    grant(admin, "User:alice", *rights)
    assignment = assigned(alice, admin, TOPIC, open_topic)
    assert open_topic.encode() in assignment and TOPIC.encode() not in assignment


def joining(group: str) -> dict[str, Any]:
    protocols = [{"name": "range", "metadata": subscription(OPEN)}]
    return {"group_id": group, "session_timeout": 30_000, "rebalance_timeout": 30_000, "protocol_type": "consumer",
            "protocols": protocols}  # fmt: skip


def answer_of(client: LoggedIn, api: str, version: int) -> dict[str, Any]:
    frame = client.receive(seconds_max=60)
    assert isinstance(frame, bytes)
    return read_response(api, version, frame)


def test_a_right_that_is_removed_hides_what_a_waiting_member_of_a_group_would_learn(
    admin: LoggedIn, alice: LoggedIn
) -> None:
    group = "penetration-waiting"
    right = need("group read", name=group)
    grant(admin, "User:alice", right)
    this, join = {"group_id": group}, joining(group)
    first = admin.until(lambda answer: answer["member_id"] != "", "join_group", 5, **join, member_id="")["member_id"]
    joined = admin.ask("join_group", 5, **join, member_id=first)
    assert isinstance(joined, dict)
    admin.ask("sync_group", 3, **this, member_id=first, generation_id=joined["generation_id"])
    known = alice.ask("join_group", 5, **join, member_id="")
    assert isinstance(known, dict)
    second = known["member_id"]
    alice.send(request_frame("join_group", 5, {**join, "member_id": second}))
    rejoined = admin.ask("join_group", 5, **join, member_id=first)
    assert isinstance(rejoined, dict) and len(rejoined["members"]) == 2
    generation = answer_of(alice, "join_group", 5)["generation_id"]
    alice.send(request_frame("sync_group", 3, {**this, "member_id": second, "generation_id": generation}))
    grant(admin, "User:alice")
    assignments = [{"member_id": second, "assignment": b"secret"}]
    admin.ask("sync_group", 3, **this, member_id=first, generation_id=generation, assignments=assignments)
    synced = answer_of(alice, "sync_group", 3)
    assert (synced["error_code"], synced["assignment"]) == ("30 group_authorization_failed", "")
    grant(admin, "User:alice", right)
    # With other metadata the member starts a rebalance, which waits for the first one.
    join["protocols"] = [{"name": "range", "metadata": subscription(OPEN, OPEN)}]
    alice.send(request_frame("join_group", 5, {**join, "member_id": second}))
    admin.until(lambda answer: answer["groups"][0]["group_state"] == "PreparingRebalance", "describe_groups", 5,
                groups=[group])  # fmt: skip
    grant(admin, "User:alice")
    admin.ask("leave_group", 3, **this, members=[{"member_id": first}])
    joined = answer_of(alice, "join_group", 5)
    assert (joined["error_code"], joined["members"]) == ("30 group_authorization_failed", [])


def test_a_right_on_a_share_group_that_is_removed_stops_a_waiting_fetch(
    admin: LoggedIn, alice: LoggedIn, open_topic: str
) -> None:
    group = "penetration-sharing"
    topic = need("topic read", name=open_topic)
    grant(admin, "User:alice", topic, need("group read", name=group))
    member = {"group_id": group, "member_id": "BAAAAAAAAAAAAAAAAAAAAQ"}
    alice.until(
        lambda answer: answer["error_code"] == "0 none", "share_group_heartbeat", 1, **member, member_epoch=0,
        subscribed_topic_names=[open_topic],
    )  # fmt: skip
    fetch = {
        **member, "share_session_epoch": 0, "max_wait": 600_000, "min_bytes": 1, "max_bytes": 1000, "max_records": 1,
        "batch_size": 1,
        "topics": [{"topic_id": admin.topic_id(open_topic), "partitions": [{"partition_index": 0}]}],
    }  # fmt: skip
    begun = alice.ask("share_fetch", 1, **{**fetch, "max_wait": 0})
    assert isinstance(begun, dict) and begun["error_code"] == "0 none"
    alice.send(request_frame("share_fetch", 1, {**fetch, "share_session_epoch": 1}))
    grant(admin, "User:alice", topic)
    answer = answer_of(alice, "share_fetch", 1)
    assert (answer["error_code"], answer["responses"]) == ("30 group_authorization_failed", [])


@pytest.mark.parametrize("names", ["auto", "shown"])
def test_the_metrics_reveal_names_only_if_configured_so(names: str) -> None:
    port, metrics_port = free_ports(2)
    settings = {
        "listeners": f"SASL_PLAINTEXT://{HOST}:{port}",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": jaas(**USERS),
        "authorizer.class.name": AUTHORIZER,
        "super.users": "User:admin",
        "metrics.listener": f"http://127.0.0.1:{metrics_port}",
        "metrics.names": names,
    }
    with Broker(settings, port=port):
        admin = LoggedIn("metrics", HOST, port, user="admin", password=USERS["admin"])
        wanted = [{"name": "secret", "num_partitions": 1, "replication_factor": 1}]
        admin.ask("create_topics", 7, topics=wanted, timeout=10_000)
        admin.settle("secret")
        with urlopen(f"http://127.0.0.1:{metrics_port}/metrics", timeout=60) as response:
            text = response.read().decode()
        connection = HTTPConnection("127.0.0.1", metrics_port, timeout=60)
        connection.request("GET", "/share-partitions")
        status = connection.getresponse().status
        connection.close()
        admin.hang_up()
    assert ("secret" in text) == (names == "shown")
    assert status == (200 if names == "shown" else 403)
    assert "kafka_server_brokertopicmetrics_bytesin_total{" in text


def code_of(answer: Any, field: str) -> str:
    assert isinstance(answer, dict)
    code: str = answer[field][0]["error_code"]
    return code


@pytest.fixture
def audited(admin: LoggedIn) -> str:
    """The audit topic, created before any denial does it."""
    admin.ask(
        "create_topics", 7, topics=[{"name": AUDIT, "num_partitions": 1, "replication_factor": 1}], timeout=10_000
    )
    admin.settle(AUDIT)
    return AUDIT


def test_a_right_on_the_cluster_does_not_delete_the_audit(admin: LoggedIn, alice: LoggedIn, audited: str) -> None:
    grant(admin, "User:alice", need("cluster delete"), need("cluster describe"))
    by_name = alice.ask("delete_topics", 5, topic_names=[audited], timeout=10_000)
    by_id = alice.ask("delete_topics", 6, topics=[{"name": None, "topic_id": admin.topic_id(audited)}], timeout=10_000)
    assert {code_of(answer, "responses") for answer in (by_name, by_id)} == {"29 topic_authorization_failed"}
    assert code_of(alice.ask("delete_topics", 5, topic_names=["none"], timeout=10_000), "responses").startswith("3 ")


def test_a_right_on_the_cluster_does_not_create_the_audit(admin: LoggedIn, alice: LoggedIn, audited: str) -> None:
    """The client that creates it chooses its settings, such as a retention of a millisecond."""
    admin.ask("delete_topics", 5, topic_names=[audited], timeout=10_000)
    grant(admin, "User:alice", need("cluster create"), need("topic describe", name=audited))
    topic = {"name": audited, "num_partitions": 1, "replication_factor": 1}
    created = alice.ask("create_topics", 7, topics=[topic], timeout=10_000, validate_only=True)
    assert code_of(created, "topics") == "29 topic_authorization_failed"
    other = alice.ask("create_topics", 7, topics=[{**topic, "name": "other"}], timeout=10_000, validate_only=True)
    assert code_of(other, "topics") == "0 none"


@pytest.mark.parametrize(
    "option",
    ["ssl.truststore.certificates", "listener.name.sasl_plaintext.ssl.truststore.location", "ssl.keystore.location"],
)
@pytest.mark.parametrize("api", ["incremental_alter_configs", "alter_configs"])
def test_only_super_users_change_whom_a_node_trusts(admin: LoggedIn, alice: LoggedIn, api: str, option: str) -> None:
    """A user with ALTER_CONFIGS could trust a certificate authority of its own, and become a node."""
    grant(admin, "User:alice", need("cluster alter_configs"))

    def altered(client: LoggedIn, name: str, value: str) -> str:
        config = {"name": name, "value": value, "config_operation": 0}
        resource = {"resource_type": 4, "resource_name": "1", "configs": [config]}
        return code_of(client.ask(api, 1, resources=[resource], validate_only=True), "responses")

    assert altered(alice, option, "/nowhere") == "31 cluster_authorization_failed"
    assert altered(alice, "max.connections", "1000") == "0 none"
    assert not altered(admin, option, "/nowhere").startswith("31 ")


def test_settings_are_not_replaced_to_remove_those_of_super_users(admin: LoggedIn, alice: LoggedIn) -> None:
    grant(admin, "User:alice", need("cluster alter_configs"))
    broker = {"resource_type": 4, "resource_name": "1"}
    change = {"name": "ssl.truststore.location", "value": "/nowhere", "config_operation": 0}
    set_by_admin = admin.ask("incremental_alter_configs", 1, resources=[{**broker, "configs": [change]}])
    assert code_of(set_by_admin, "responses") == "0 none"
    try:
        replaced = alice.ask("alter_configs", 1, resources=[{**broker, "configs": []}], validate_only=True)
        assert code_of(replaced, "responses") == "31 cluster_authorization_failed"
    finally:
        admin.ask(
            "incremental_alter_configs", 1, resources=[{**broker, "configs": [{**change, "config_operation": 1}]}]
        )


@pytest.mark.parametrize("name", ["", "1"])
def test_nobody_changes_the_secret_that_hides_which_users_exist(admin: LoggedIn, name: str) -> None:
    config = {"name": "sasl.scram.unknown.users.secret", "value": "00", "config_operation": 0}
    resource = {"resource_type": 4, "resource_name": name, "configs": [config]}
    answer = admin.ask("incremental_alter_configs", 1, resources=[resource], validate_only=True)
    assert code_of(answer, "responses") == "42 invalid_request"


def test_a_share_session_belongs_to_its_principal(
    admin: LoggedIn, alice: LoggedIn, bob: LoggedIn, open_topic: str
) -> None:
    group = "penetration-sessions"
    rights = need("topic read", name=open_topic), need("group read", name=group)
    grant(admin, "User:alice", *rights)
    grant(admin, "User:bob", *rights)
    topics = [{"topic_id": admin.topic_id(open_topic), "partitions": [{"partition_index": 0}]}]
    member = {"group_id": group, "member_id": "BAAAAAAAAAAAAAAAAAAAAg"}
    fetch = {**member, "max_wait": 0, "min_bytes": 0, "max_bytes": 1000, "max_records": 1, "batch_size": 1}

    def fetched(client: LoggedIn, epoch: int) -> str:
        named = [] if epoch else topics
        answer = client.ask("share_fetch", 1, **fetch, share_session_epoch=epoch, topics=named)
        assert isinstance(answer, dict)
        code: str = answer["error_code"]
        return code

    assert fetched(alice, 0) == "0 none"
    missing = "122 share_session_not_found"
    assert [fetched(bob, epoch) for epoch in (0, 1, -1)] == [missing] * 3
    acknowledged = bob.ask("share_acknowledge", 1, **member, share_session_epoch=-1, topics=[])
    assert isinstance(acknowledged, dict) and acknowledged["error_code"] == missing
    assert [fetched(alice, epoch) for epoch in (1, -1)] == ["0 none"] * 2
    # The session is closed: the id is free again.
    assert fetched(bob, 0) == "0 none"
