import socket
from concurrent.futures import Future

import pytest
from confluent_kafka import KafkaError, KafkaException

from penstock.actions.connection import bootstrap_addresses, explain, parse_pairs, reach, split_address, wait_all
from penstock.cli.errors import CommandError


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("localhost:9092", ("localhost", 9092)),
        ("broker.example", ("broker.example", 9092)),
        ("[::1]:19092", ("::1", 19092)),
        ("::1", ("::1", 9092)),
    ],
)
def test_addresses(text: str, address: tuple[str, int]) -> None:
    assert split_address(text) == address


@pytest.mark.parametrize("text", ["", ":9092", "host:0", "host:99999", "host:kafka"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(CommandError, match="write HOST:PORT"):
        bootstrap_addresses(text)


def test_one_living_address_is_enough() -> None:
    asked: list[tuple[str, int]] = []
    ours, theirs = socket.socketpair()

    def dial(host: str, port: int) -> socket.socket:
        asked.append((host, port))
        if host == "a":
            raise ConnectionRefusedError
        return ours

    reach("a:1,b:2,c:3", dial=dial)
    theirs.close()
    assert asked == [("a", 1), ("b", 2)]


@pytest.mark.parametrize(
    ("error", "advice"),
    [
        (ConnectionRefusedError(), "start a broker with 'penstock start'"),
        (socket.gaierror(), "check the spelling"),
        (TimeoutError("timed out"), "'penstock doctor'"),
    ],
)
def test_an_address_nobody_answers_at_gives_the_next_step(error: OSError, advice: str) -> None:
    def dial(host: str, port: int) -> socket.socket:
        raise error

    with pytest.raises(CommandError, match=advice):
        reach("nowhere:1", dial=dial)


def test_an_error_of_the_cluster_ends_with_the_next_step() -> None:
    error = KafkaError(KafkaError.TOPIC_ALREADY_EXISTS, "Topic 'orders' already exists.")
    said = "orders: Topic 'orders' already exists - choose another name, or pass --if-not-exists."
    assert explain(error, about="orders") == said


def test_every_answer_is_waited_for_before_the_failures_are_told() -> None:
    good: Future[None] = Future()
    good.set_result(None)
    bad: Future[None] = Future()
    bad.set_exception(KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART, "not there")))
    done: list[str] = []
    with pytest.raises(CommandError, match="nope: not there"):
        wait_all({"nope": bad, "orders": good}, done=done.append)
    assert done == ["orders"]


def test_pairs_keep_what_follows_the_first_equals_sign() -> None:
    assert parse_pairs(["a=b=c", "d="], option="--set a=b") == {"a": "b=c", "d": ""}


@pytest.mark.parametrize("text", ["a", "=b", ""])
def test_what_is_no_pair_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(CommandError, match="write for example --set a=b"):
        parse_pairs([text], option="--set a=b")
