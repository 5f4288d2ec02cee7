"""Tests of the console's changes: what was shown is executed, once, and nothing else."""

from __future__ import annotations

import itertools
import json
import logging
import os
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from penstock.worker.dead_letter import Death
from penstock.worker.dead_letter import write as letter_headers
from tests.compat.conftest import MakeTopic
from tests.compat.console.conftest import Write
from tests.support.console import Browser, path_of
from tests.support.eventually import eventually

NUMBERS = itertools.count(1)


def new_name(kind: str = "console") -> str:
    return f"{kind}-{os.getpid()}-{next(NUMBERS)}"


def commit(bootstrap: str, group: str, topic: str, offset: int) -> None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})

    def is_committed() -> bool:
        try:
            consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
        except KafkaException as error:
            # The first group creates the offsets topic, and librdkafka does not repeat a commit that comes too early.
            assert error.args[0].code() == KafkaError.NOT_COORDINATOR
            return False
        return True

    try:
        eventually(is_committed)
    finally:
        consumer.close()


def committed(browser: Browser, group: str) -> int:
    (row,) = browser.read(f"groups/{path_of(group)}")["partitions"]
    return int(row["committed"])


def test_a_topic_is_created_extended_and_deleted(browser: Browser, admin: AdminClient) -> None:
    topic = new_name()
    plan = browser.plan("topic.create", topic=topic, partitions=2, settings={"retention.ms": "60000"})
    assert plan["command"].startswith(f"penstock topic create {topic} --partitions 2 --config retention.ms=60000")
    assert topic not in admin.list_topics(timeout=60).topics
    assert browser.execute(plan).json["message"] == f"Created topic {topic}."
    eventually(lambda: browser.get(f"/api/c/local/topics/{topic}").status == 200)
    assert browser.plan("topic.create", topic=topic)["blocked"]
    browser.change("topic.add-partitions", topic=topic, partitions=5)
    eventually(lambda: len(browser.read(f"topics/{topic}")["partitions"]) == 5)
    assert browser.plan("topic.add-partitions", topic=topic, partitions=5)["digest"] is None
    plan = browser.plan("topic.delete", topic=topic)
    assert plan["danger"] and len(plan["rows"]) == 5
    assert browser.execute(plan).status == 200
    eventually(lambda: browser.get(f"/api/c/local/topics/{topic}").status == 404)


@pytest.mark.parametrize("name", ["", "a/b", "<script>", "é", "x" * 250, "..", "a b"])
def test_an_invalid_topic_name_is_rejected(browser: Browser, name: str) -> None:
    answer = browser.post("/api/c/local/changes/topic.create/plan", {"topic": name})
    if answer.status == 200:
        assert answer.json["blocked"] and answer.json["digest"] is None
    else:
        assert answer.status == 400 and answer.json["error"]["message"]


def test_an_impossible_topic_is_not_planned(browser: Browser) -> None:
    assert browser.plan("topic.create", topic=new_name(), replication_factor=5)["blocked"]
    assert browser.plan("topic.create", topic=new_name(), settings={"no.such.setting": "1"})["blocked"]


def test_settings_are_changed_as_shown(browser: Browser, make_topic: MakeTopic) -> None:
    topic = make_topic(config={"retention.ms": "1000"})
    plan = browser.plan("topic.settings", name=topic, set={"max.message.bytes": "2000000"}, unset=["retention.ms"])
    rows = {row["setting"]: row for row in plan["rows"]}
    assert rows["retention.ms"]["before"] == "1000"
    assert rows["max.message.bytes"]["after"] == "2000000"
    assert browser.execute(plan).status == 200

    def found() -> dict[str, Any]:
        return {each["name"]: each for each in browser.read(f"topics/{topic}/settings")["settings"]}

    eventually(lambda: found()["max.message.bytes"]["value"] == "2000000")
    assert found()["max.message.bytes"]["is_set"]
    assert not found()["retention.ms"]["is_set"]
    assert browser.plan("topic.settings", name=topic, set={"nothing": "1"})["blocked"]


def test_records_are_produced_and_deleted(browser: Browser, make_topic: MakeTopic) -> None:
    topic = make_topic()
    headers = [["trace", "1"], ["none", None], ["bytes", {"base64": "/w=="}]]
    browser.change("records.produce", topic=topic, key="k", value='{"id": 1}', headers=headers, copies=3)
    browser.change("records.produce", topic=topic, value=None, key={"base64": "AP8="}, partition=0)
    rows = browser.read(f"topics/{topic}/records")["rows"]
    assert [row["value"]["text"] for row in rows] == ['{"id": 1}'] * 3 + ["null"]
    assert [header["name"] for header in rows[0]["headers"]] == ["trace", "none", "bytes"]
    assert rows[3]["key"]["size"] == 2
    plan = browser.plan("topic.delete-records", topic=topic, before="3")
    assert plan["rows"] == [{"topic": topic, "partition": 0, "before": 0, "after": 3}]
    assert browser.execute(plan).status == 200
    assert len(browser.read(f"topics/{topic}/records")["rows"]) == 1


def test_a_digest_is_accepted_once(browser: Browser, make_topic: MakeTopic) -> None:
    topic = make_topic()
    plan = browser.plan("records.produce", topic=topic, value="once")
    assert browser.execute(plan).status == 200
    answer = browser.execute(plan)
    assert (answer.status, answer.code) == (409, "PLAN_UNKNOWN")
    assert len(browser.read(f"topics/{topic}/records")["rows"]) == 1


@pytest.mark.parametrize("digest", ["", "0" * 64, 7, None, ["x"]])
def test_an_invented_digest_is_rejected(browser: Browser, digest: Any) -> None:
    answer = browser.post("/api/c/local/changes/topic.delete/execute", {"digest": digest})
    assert answer.status in (400, 409)


def test_offsets_are_reset_as_shown(browser: Browser, make_topic: MakeTopic, write: Write, bootstrap: str) -> None:
    topic, group = make_topic(), new_name("a/b <script> é")
    write(topic, [b"%d" % number for number in range(10)])
    commit(bootstrap, group, topic, 7)
    plan = browser.plan("group.reset", group=group, to="latest")
    assert (plan["rows"][0]["current"], plan["rows"][0]["new"]) == (7, 10)
    # Records that arrive between plan and execution are not skipped.
    write(topic, [b"new"])
    assert browser.execute(plan).status == 200
    assert committed(browser, group) == 10
    for to, expected in (("earliest", 0), ("+3", 3), ("-1", 2), ("5", 5), ("1h", 0), ("99", 11)):
        browser.change("group.reset", group=group, topics=[topic], to=to)
        assert committed(browser, group) == expected
    browser.change("group.delete", group=group)
    assert browser.get(f"/api/c/local/groups/{path_of(group)}").status == 404


def test_a_reset_is_refused_if_the_group_has_moved(
    browser: Browser, make_topic: MakeTopic, write: Write, bootstrap: str
) -> None:
    topic, group = make_topic(), new_name("group")
    write(topic, [b"%d" % number for number in range(10)])
    commit(bootstrap, group, topic, 3)
    plan = browser.plan("group.reset", group=group, to="earliest")
    commit(bootstrap, group, topic, 5)
    answer = browser.execute(plan)
    assert (answer.status, answer.code) == (409, "PLAN_STALE")
    assert answer.json["error"]["plan"]["rows"][0]["current"] == 5
    assert committed(browser, group) == 5


def test_a_group_with_members_is_not_reset(
    browser: Browser, make_topic: MakeTopic, write: Write, bootstrap: str
) -> None:
    topic, group = make_topic(), new_name("group")
    write(topic, [b"x"])
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest"})
    try:
        consumer.subscribe([topic])
        eventually(lambda: consumer.poll(0.1) is not None)
        consumer.commit(asynchronous=False)
        found = browser.read(f"groups/{group}")
        assert len(found["members"]) == 1
        assert found["members"][0]["partitions"] == [f"{topic}-0"]
        plan = browser.plan("group.reset", group=group, to="earliest")
        assert "active members" in plan["blocked"] and plan["digest"] is None
        assert browser.plan("group.delete", group=group)["blocked"]
    finally:
        consumer.close()


def dead_letter(source: str, number: int) -> list[tuple[str, str | bytes | None]]:
    death = Death(
        topic=source,
        partition=0,
        offset=number,
        timestamp_ms=1,
        error_class="ValueError" if number % 2 else "KeyError",
        error_message=f"bad <b>{number}</b>",
        trace="Traceback",
        attempts=3,
        first_failure_ms=1,
        last_failure_ms=2,
        group="billing",
    )
    return letter_headers([], death)


def test_dead_letters_are_grouped_and_sent_back(
    browser: Browser, admin: AdminClient, bootstrap: str, write: Write
) -> None:
    source = new_name()
    for topic in (source, f"{source}.dlq"):
        browser.change("topic.create", topic=topic, partitions=1)
        eventually(lambda topic=topic: topic in admin.list_topics(timeout=60).topics)  # type: ignore[misc]
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(6):
        producer.produce(f"{source}.dlq", b"value %d" % number, b"k", headers=dead_letter(source, number))
    assert producer.flush(60) == 0
    write(f"{source}.dlq", [b"no letter"])
    listed = {row["topic"]: row for row in browser.read("dead-letters")["topics"]}
    assert listed[f"{source}.dlq"]["not_replayed"] == 7
    found = browser.read(f"dead-letters/{source}")
    assert {row["error"]: row["count"] for row in found["errors"]} == {"ValueError": 3, "KeyError": 3}
    assert (found["total"], len(found["letters"])) == (7, 7)
    plan = browser.plan("dead-letters.replay", topic=source, error="ValueError")
    assert [row["offset"] for row in plan["rows"]] == [1, 3, 5]
    # A letter that arrives after the plan was shown is not sent.
    producer.produce(f"{source}.dlq", b"late", headers=dead_letter(source, 7))
    assert producer.flush(60) == 0
    job = browser.execute(plan).json["job"]
    eventually(lambda: browser.read(f"jobs/{job}")["state"] != "running")
    assert browser.read(f"jobs/{job}")["state"] == "done"
    rows = browser.read(f"topics/{source}/records")["rows"]
    assert [row["value"]["text"] for row in rows] == ["value 1", "value 3", "value 5"]
    assert browser.plan("dead-letters.replay", topic=source, error="Nothing")["blocked"]


def test_dead_letters_are_sent_to_another_topic(
    browser: Browser, make_topic: MakeTopic, bootstrap: str, write: Write
) -> None:
    target, letters = make_topic(), make_topic()
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce(letters, b"value", b"k", headers=dead_letter("gone", 0))
    assert producer.flush(60) == 0
    write(letters, [b"no letter"])
    plan = browser.plan(
        "dead-letters.replay", topic=letters, to=target, **{"from": "earliest"}, count=5, rate=100, partition=0
    )
    assert plan["command"] == (
        f"penstock dlq replay {letters} --partition 0 --from earliest --to {target} --rate 100 --count 5 --execute "
        f"--bootstrap {bootstrap}"
    )
    assert plan["warnings"] == [
        "The letters stay in the dead-letter topic.",
        "Skips 1 record without the headers of a dead letter.",
        f"All letters are sent to topic {target}, not to their own topics.",
    ]
    job = browser.execute(plan).json["job"]
    eventually(lambda: browser.read(f"jobs/{job}")["state"] != "running")
    assert browser.read(f"jobs/{job}")["message"] == f"Sent 1 letter of {letters} back."
    assert [row["value"]["text"] for row in browser.read(f"topics/{target}/records")["rows"]] == ["value"]


def test_a_fixed_setting_of_a_node_is_not_planned(browser: Browser) -> None:
    plan = browser.plan("node.settings", name="1", set={"node.id": "2"})
    assert plan["blocked"] == (
        "Setting 'node.id' cannot be changed while the broker runs. Change its configuration file."
    )
    assert plan["digest"] is None


def test_settings_of_all_nodes_are_set_and_unset_by_two_commands(browser: Browser, bootstrap: str) -> None:
    plan = browser.plan("cluster.settings", set={"log.cleaner.backoff.ms": "16000"}, unset=["message.max.bytes"])
    assert plan["title"] == "Change settings of all nodes" and plan["blocked"] is None
    assert plan["command"] == (
        f"penstock config set --cluster log.cleaner.backoff.ms=16000 --bootstrap {bootstrap} && "
        f"penstock config unset --cluster message.max.bytes --bootstrap {bootstrap}"
    )


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"value": 7}, "Invalid argument 'value': expected text, null or"),
        ({"value": {"base64": "*"}}, "Invalid base64 in 'value'"),
        ({"value": {"base64": "", "more": 1}}, "Invalid argument 'value': expected text, null or"),
        ({"headers": [["name"]]}, "Invalid argument 'headers': expected"),
        ({"headers": [["x", "y"]] * 1001}, "A record has at most 1000 headers."),
        ({"value": "x" * 1_000_000, "copies": 1000}, "Too large: 1000 records of 1000000 bytes. The limit is 40 MiB."),
    ],
)
def test_records_that_cannot_be_written_are_rejected(
    browser: Browser, make_topic: MakeTopic, arguments: dict[str, Any], why: str
) -> None:
    answer = browser.post("/api/c/local/changes/records.produce/plan", {"topic": make_topic(), **arguments})
    assert answer.status == 400 and why in answer.json["error"]["message"]


def test_a_large_record_is_not_part_of_the_command(browser: Browser, make_topic: MakeTopic) -> None:
    topic = make_topic()
    plan = browser.plan("records.produce", topic=topic, value="x" * 5000)
    assert plan["command"].startswith(f"penstock produce {topic} --format json --file record.json --bootstrap ")


@pytest.mark.parametrize("verb", ("password", "remove"))
def test_a_user_that_does_not_exist_is_not_changed(browser: Browser, verb: str) -> None:
    assert browser.plan(f"user.{verb}", user="nobody")["blocked"] == "User 'nobody' does not exist."


def test_a_job_that_does_not_exist_is_not_found(browser: Browser) -> None:
    assert browser.get("/api/c/local/jobs/nothing").status == 404


def test_quotas_are_set_and_removed(browser: Browser) -> None:
    entity = {"client-id": new_name("<client>")}
    plan = browser.plan("quota.set", entity=entity, quotas={"producer_byte_rate": 1024})
    assert plan["rows"] == [{"name": "producer_byte_rate", "before": None, "after": 1024}]
    assert browser.execute(plan).status == 200

    def found() -> list[Any]:
        return [each["quotas"] for each in browser.read("quotas")["quotas"] if each["entity"] == entity]

    eventually(lambda: found() == [{"producer_byte_rate": 1024}])
    browser.change("quota.remove", entity=entity, names=[])
    eventually(lambda: found() == [])
    assert browser.post("/api/c/local/changes/quota.set/plan", {"entity": {}, "quotas": {"x": 1}}).status == 400


def test_users_are_added_and_removed(browser: Browser, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "penstock_console.audit")
    user = new_name("user")
    assert len(browser.change("user.add", user=user)["result"]["password"]) > 20
    assert browser.change("user.password", user=user, password="hunter2-secret")["result"] == {}
    eventually(lambda: user in [each["user"] for each in browser.read("users")["users"]])
    assert browser.plan("user.add", user=user)["blocked"]
    browser.change("user.remove", user=user)
    eventually(lambda: user not in [each["user"] for each in browser.read("users")["users"]])
    lines = [json.loads(record.getMessage()) for record in caplog.records if record.name == "penstock_console.audit"]
    assert [line["audit"] for line in lines] == ["user.add", "user.password", "user.remove"]
    assert all(line["arguments"]["user"] == user and line["cluster"] == "local" for line in lines)
    assert "hunter2" not in caplog.text


def test_acls_need_an_authorizer(browser: Browser) -> None:
    answer = browser.get("/api/c/local/acls")
    assert (answer.status, answer.code) == (400, "SECURITY_DISABLED")


def test_an_open_transaction_is_shown_and_aborted(browser: Browser, make_topic: MakeTopic, bootstrap: str) -> None:
    topic, name = make_topic(), new_name("txn")
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": name})
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce(topic, b"open")
    assert producer.flush(60) == 0

    def state() -> str:
        return str(browser.read(f"transactions/{name}")["state"])

    eventually(lambda: state() == "Ongoing")
    listed = browser.read("transactions", search=name)["transactions"]
    assert listed[0]["partitions"] == [f"{topic}-0"]
    assert browser.read(f"topics/{topic}/records")["rows"] == []
    assert len(browser.read(f"topics/{topic}/records", isolation="read_uncommitted")["rows"]) == 1
    browser.change("transaction.abort", id=name)
    eventually(lambda: state() != "Ongoing")
    assert browser.plan("transaction.abort", id=name)["blocked"]


def test_a_change_that_does_not_exist_is_not_found(browser: Browser) -> None:
    assert browser.post("/api/c/local/changes/cluster.destroy/plan", {}).status == 404


@pytest.mark.parametrize(
    ("action", "arguments"),
    [
        ("topic.create", {"topic": "t", "partitions": -1}),
        ("topic.create", {"topic": "t", "partitions": "many"}),
        ("topic.create", {"topic": "t", "settings": {"a": 1}}),
        ("topic.create", {"topic": ["t"]}),
        ("topic.create", {"topic": "t", "extra": 1}),
        ("topic.delete", {"topic": None}),
        ("records.produce", {"topic": "missing-topic", "value": "x"}),
        ("group.reset", {"group": "g", "to": "yesterday"}),
        ("group.reset", {"group": "g", "to": "5", "topics": ["missing-topic"]}),
        ("quota.set", {"entity": {"planet": "x"}, "quotas": {"producer_byte_rate": 1}}),
        ("quota.set", {"entity": {"user": "x"}, "quotas": {"producer_byte_rate": "1"}}),
        ("topic.settings", {"name": "t", "set": {}, "unset": []}),
        ("cluster.settings", {"set": {}}),
        ("cluster.settings", {"set": {"log.retention.ms": "1"}, "unset": ["log.retention.ms"]}),
        ("node.settings", {"name": "one", "set": {"log.retention.ms": "1"}}),
        ("group.reset", {"group": "g", "to": "last:5"}),
        ("acl.add", {"acls": []}),
        ("acl.add", {"acls": [{"principal": "a"}]}),
        ("replicas.move", {"topic": "t", "to": ["x"]}),
        ("replicas.drain", {"node": 99}),
        ("transaction.abort", {"id": "missing"}),
    ],
)
def test_bad_arguments_are_rejected(browser: Browser, action: str, arguments: dict[str, Any]) -> None:
    answer = browser.post(f"/api/c/local/changes/{action}/plan", arguments)
    assert answer.status in (400, 404)
    assert answer.json["error"]["message"]
