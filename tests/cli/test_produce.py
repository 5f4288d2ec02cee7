"""penstock produce: an error names the limit or the rule that a record broke."""

import json

from tests.cli.conftest import Run

LARGE = "x" * 3_000_000 + "\n"


def test_a_record_may_be_as_large_as_the_topic_allows(run: Run, topic: str) -> None:
    run("topic", "create", topic, "--config", "max.message.bytes=4000000")
    outcome = run("produce", topic, given=LARGE)
    assert (outcome.code, outcome.err) == (0, f"1 record written to {topic}\n")


def test_a_record_that_is_too_large_for_the_topic_names_its_setting(run: Run, topic: str) -> None:
    run("topic", "create", topic)
    outcome = run("produce", topic, given=LARGE)
    assert outcome.code == 1
    assert "Message size too large" in outcome.err
    assert "penstock config set --topic TOPIC max.message.bytes=N" in outcome.err


def test_a_record_that_is_too_large_for_the_client_names_the_client_property(run: Run, topic: str) -> None:
    run("topic", "create", topic, "--config", "max.message.bytes=4000000")
    outcome = run("produce", topic, "-X", "message.max.bytes=1000000", given=LARGE)
    assert outcome.code == 1
    assert "a record of 3000000 bytes exceeds the client property message.max.bytes" in outcome.err
    assert "of the topic" not in outcome.err


def test_a_record_without_a_key_in_a_compacted_topic_is_explained(run: Run, topic: str) -> None:
    run("topic", "create", topic, "--config", "cleanup.policy=compact")
    outcome = run("produce", topic, given="no key\n")
    assert outcome.code == 1
    assert "a record without a key cannot be written to a compacted topic" in outcome.err
    assert "--key-separator" in outcome.err
    keyed = json.dumps({"key": "k", "value": "v"}) + "\n"
    assert run("produce", topic, "--format", "json", given=keyed).code == 0
