"""Tests of the client commands against a live broker."""

import itertools
import json
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.testing import Broker
from tests.support.command import COMMAND, Outcome, penstock

_numbers = itertools.count(1)


@pytest.fixture
def topic() -> str:
    return f"cli-{next(_numbers)}"


@pytest.fixture
def bootstrap(penstock_broker_shared: Broker) -> Iterator[str]:
    yield penstock_broker_shared.bootstrap


def done(*words: str, given: str = "") -> Outcome:
    outcome = penstock(*words, given=given)
    assert outcome.code == 0, outcome.err
    return outcome


def refused(*words: str, given: str = "") -> str:
    outcome = penstock(*words, given=given)
    assert outcome.code == 1
    return outcome.err


def test_a_topic_is_created_described_and_deleted(bootstrap: str, topic: str) -> None:
    at = ("--bootstrap", bootstrap)
    assert done("topic", "create", topic, "-p", "2", "-c", "retention.ms=1000000", *at).out == f"created {topic}\n"
    assert "--if-not-exists" in refused("topic", "create", topic, *at)
    assert "already exists" in done("topic", "create", topic, "--if-not-exists", *at).err
    assert "new total" in refused("topic", "add-partitions", topic, "-p", "1", *at)
    done("topic", "add-partitions", topic, "-p", "3", *at)
    rows = done("topic", "describe", topic, "--format", "json", *at).json()
    assert [(row["partition"], row["leader"], row["latest"]) for row in rows] == [(0, 1, 0), (1, 1, 0), (2, 1, 0)]
    assert "retention.ms=1000000" in done("topic", "describe", topic, *at).out
    listed = {row["topic"]: row for row in done("topic", "list", "--format", "json", *at).json()}
    assert listed[topic]["partitions"] == 3
    assert f"\n{topic},3,1," in done("topic", "list", "--format", "csv", *at).out
    outcome = penstock("topic", "delete", topic, f"{topic}-nope", "--yes", *at)
    assert (outcome.code, outcome.out) == (1, f"deleted {topic}\n")
    assert "penstock topic list" in outcome.err
    assert topic not in done("topic", "list", *at).out


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_produced_lines_are_consumed(bootstrap: str, topic: str, codec: str) -> None:
    at = ("--bootstrap", bootstrap)
    done("topic", "create", topic, "-p", "1", *at)
    lines = "a:1\nb:2\nc:3:4\n"
    said = done("produce", topic, "-k", ":", "-H", "source=shell", "--codec", codec, *at, given=lines).err
    assert said == f"3 records written to {topic}\n"
    assert done("consume", topic, *at).out == "1\n2\n3:4\n"
    assert done("consume", topic, "--keys", "--key-separator", ":", *at).out == lines
    first = json.loads(done("consume", topic, "--format", "json", "--count", "1", *at).out)
    assert (first["offset"], first["key"], first["value"], first["headers"]) == (0, "a", "1", [["source", "shell"]])


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_records_are_written_with_each_acks_setting(bootstrap: str, topic: str, acks: str) -> None:
    at = ("--bootstrap", bootstrap)
    done("topic", "create", topic, "-p", "1", *at)
    done("produce", topic, "--acks", acks, *at, given="x\n")
    assert done("consume", topic, "--follow", "--count", "1", *at).out == "x\n"


def test_consume_starts_at_each_kind_of_position(bootstrap: str, topic: str, tmp_path: Path) -> None:
    at = ("--bootstrap", bootstrap)
    done("topic", "create", topic, "-p", "1", *at)
    lines = "".join(
        json.dumps({"value": str(number), "timestamp": 1_700_000_000_000 + number * 1000}) + "\n"
        for number in range(10)
    )
    file = tmp_path / "records.jsonl"
    file.write_text(lines)
    done("produce", topic, "--format", "json", "--file", str(file), *at)
    assert done("consume", topic, "--from", "7", *at).out == "7\n8\n9\n"
    assert done("consume", topic, "--from=-2", *at).out == "8\n9\n"
    assert done("consume", topic, "--from", "@1700000005500", *at).out == "6\n7\n8\n9\n"
    assert done("consume", topic, "--from", "2023-11-14T22:13:29Z", *at).out == "9\n"
    assert done("consume", topic, "--from", "latest", *at).out == ""
    assert done("consume", topic, "--from", "1m", *at).out == ""
    assert "holds offsets 0 to 9" in refused("consume", topic, "--from", "11", *at)


def test_json_lines_copy_a_topic(bootstrap: str, topic: str) -> None:
    at = ("--bootstrap", bootstrap)
    copy = f"{topic}-copy"
    done("topic", "create", topic, copy, "-p", "2", *at)
    record = {"value": {"base64": "/wA="}, "key": "k", "headers": [["h", None]], "timestamp": 5, "partition": 1}
    done("produce", topic, "--format", "json", *at, given=json.dumps(record) + "\n")
    printed = done("consume", topic, "--format", "json", *at).out
    done("produce", copy, "--format", "json", *at, given=printed)
    assert done("consume", copy, "--format", "json", *at).out == printed.replace(f'"{topic}"', f'"{copy}"')


def test_lines_before_a_bad_one_are_written(bootstrap: str, topic: str) -> None:
    at = ("--bootstrap", bootstrap)
    done("topic", "create", topic, "-p", "1", *at)
    assert "Line 2" in refused("produce", topic, "-k", ":", *at, given="a:1\nbad\n")
    assert done("consume", topic, *at).out == "1\n"


def test_an_unknown_partition_is_rejected(bootstrap: str, topic: str) -> None:
    at = ("--bootstrap", bootstrap)
    done("topic", "create", topic, "-p", "1", *at)
    assert "its partitions are 0 to 0" in refused("consume", topic, "--partition", "4", *at)
    assert "1 of 1 records were not written" in refused("produce", topic, "--partition", "4", *at, given="x\n")


def test_follow_shows_what_is_written_later(bootstrap: str, topic: str) -> None:
    at = ("--bootstrap", bootstrap)
    done("topic", "create", topic, "-p", "1", *at)
    words = [*COMMAND, "consume", topic, "--follow", "--count", "2", *at]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as reader:
        done("produce", topic, *at, given="one\ntwo\n")
        out, _ = reader.communicate(timeout=60)
    assert (reader.returncode, out) == (0, "one\ntwo\n")


def test_a_closed_output_pipe_is_not_an_error(bootstrap: str, topic: str) -> None:
    at = ("--bootstrap", bootstrap)
    done("topic", "create", topic, "-p", "1", *at)
    done("produce", topic, *at, given="".join(f"{number}\n" for number in range(20_000)))
    command = shlex.join([*COMMAND, "consume", topic, *at])
    result = subprocess.run(f"{command} | head -n 1", shell=True, capture_output=True, text=True, timeout=60)
    assert (result.stdout, result.stderr) == ("0\n", "")


@pytest.mark.parametrize("whose", [["--topic", "TOPIC"], ["--broker", "1"], ["--cluster"]])
def test_a_setting_is_set_shown_and_reset(bootstrap: str, topic: str, whose: list[str]) -> None:
    at = ("--bootstrap", bootstrap)
    done("topic", "create", topic, *at)
    whose = [topic if word == "TOPIC" else word for word in whose]
    option = "max.message.bytes" if "--topic" in whose else "message.max.bytes"
    assert done("config", "set", *whose, f"{option}=2000000", *at).out == f"set {option}=2000000\n"
    rows = {row["option"]: row for row in done("config", "get", *whose, "--format", "json", *at).json()}
    assert rows[option]["value"] == "2000000"
    assert rows[option]["source"].startswith("dynamic")
    done("config", "unset", *whose, option, *at)
    left = done("config", "get", *whose, "--format", "json", *at).json()
    assert option not in {row["option"] for row in left}


def test_invalid_settings_are_rejected(bootstrap: str, topic: str) -> None:
    at = ("--bootstrap", bootstrap)
    done("topic", "create", topic, *at)
    assert "retention.ms" in refused("config", "set", "--topic", topic, "retention.ms=soon", *at)
    assert "no.such.option" in refused("config", "set", "--topic", topic, "no.such.option=1", *at)
    assert "config get --all" in refused("config", "get", "--topic", topic, "no.such.option", *at)
    assert "--topic NAME" in refused("config", "get", *at)
    everything = done("config", "get", "--topic", topic, "--all", "--format", "json", *at).json()
    assert len(everything) > 20


def test_the_files_of_a_topic_can_be_inspected(penstock_broker_shared: Broker, topic: str) -> None:
    at = ("--bootstrap", penstock_broker_shared.bootstrap)
    done("topic", "create", topic, "-p", "1", *at)
    done("produce", topic, "-k", ":", *at, given="a:1\nb:2\n")
    folder = str(penstock_broker_shared.data / f"{topic}-0")
    records = done("log", "dump", folder, "--what", "records", "--format", "json").json()
    assert [(row["offset"], row["key"], row["value"]) for row in records] == [(0, "a", "1"), (1, "b", "2")]
    assert done("log", "dump", folder, "--format", "json").json()[0]["records"] == 2
    assert "1 segments read, 0 damaged" in done("log", "verify", folder).err
    assert done("log", "verify", str(penstock_broker_shared.data), "--format", "json").code == 0


def test_the_doctor_finds_no_problem_on_a_healthy_broker(penstock_broker_shared: Broker) -> None:
    words = ("--bootstrap", penstock_broker_shared.bootstrap, "--data", str(penstock_broker_shared.data))
    rows = done("doctor", "--format", "json", *words).json()
    assert {row["state"] for row in rows} <= {"ok", "warning"}
    found = {row["check"]: row["found"] for row in rows}
    assert "Fetch 4-18" in found[f"protocol {penstock_broker_shared.bootstrap}"]
    assert found["lock"] == "locked by a running broker"


def test_without_a_broker_every_command_reports_it_quickly() -> None:
    for words in (
        ["topic", "list"],
        ["consume", "x"],
        ["config", "get", "--topic", "x"],
        ["config", "get", "--cluster"],
    ):
        assert "Start a broker with 'penstock start'" in refused(*words, "--bootstrap", "127.0.0.1:1")
    assert penstock("doctor", "--bootstrap", "127.0.0.1:1").code == 1


def test_help_is_shown_without_loading_the_client_library() -> None:
    script = "import sys, penstock.cli.main; print(sorted({'confluent_kafka', 'kio', 'asyncio'} & set(sys.modules)))"
    result = subprocess.run([COMMAND[0], "-c", script], capture_output=True, text=True, timeout=60)
    assert result.stdout == "[]\n"
