"""Commands that promise to work with any Kafka cluster."""

import json
from collections.abc import Callable

from tests.support.command import penstock
from tests.support.eventually import eventually


def run(bootstrap: str, *words: str, given: str = "") -> str:
    outcome = penstock(*words, "--bootstrap", bootstrap, given=given)
    assert outcome.code == 0, outcome.err
    return outcome.out


def test_a_load_test_counts_every_record(bootstrap: str) -> None:
    rows = json.loads(run(bootstrap, "bench", "--duration", "0.3", "--rate", "200", "-r", "1", "--format", "json"))
    produced, consumed = rows
    assert produced["records"] == consumed["records"] > 0
    # Kafka removes a topic from its metadata some time after it has acknowledged the request.
    eventually(lambda: "penstock-bench-" not in run(bootstrap, "topic", "list"), what="the end of the topic")


def test_records_are_filtered_formatted_and_read_by_a_group(bootstrap: str, make_topic: Callable[..., str]) -> None:
    topic = make_topic()
    run(bootstrap, "produce", topic, "--key-separator", ":", given="a:1\nb:2\n")
    assert run(bootstrap, "consume", topic, "--grep", "2", "-f", "%k=%s %S\n") == "b=2 1\n"
    assert run(bootstrap, "consume", topic, "--group", topic, "--count", "1") == "1\n"
    assert run(bootstrap, "consume", topic, "--group", topic) == "2\n"
    rows = json.loads(run(bootstrap, "topic", "list", "--format", "json"))
    assert next(row for row in rows if row["topic"] == topic)["size"] > 0
