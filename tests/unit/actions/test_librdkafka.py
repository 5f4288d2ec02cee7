from concurrent.futures import Future

import pytest
from confluent_kafka import KafkaError, KafkaException

from penstock.actions.connection import Connection
from penstock.actions.errors import ActionError, ActionErrors
from penstock.actions.librdkafka import action_error, client_config, wait_all


def failed(text: str) -> Future[None]:
    future: Future[None] = Future()
    future.set_exception(KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART, text)))
    return future


def test_an_error_of_librdkafka_keeps_its_code() -> None:
    error = action_error(KafkaError(KafkaError.TOPIC_ALREADY_EXISTS, "Topic 'orders' already exists."), about="orders")
    assert (str(error), error.code) == ("orders: Topic 'orders' already exists.", "TOPIC_ALREADY_EXISTS")


def test_all_results_are_awaited_before_an_error_is_raised() -> None:
    good: Future[None] = Future()
    good.set_result(None)
    done: list[str] = []
    with pytest.raises(ActionError, match="nope: not there"):
        wait_all({"nope": failed("not there"), "orders": good}, done=done.append)
    assert done == ["orders"]


def test_several_errors_are_raised_together() -> None:
    with pytest.raises(ActionErrors) as raised:
        wait_all({"a": failed("gone"), "b": failed("lost")})
    assert [str(error) for error in raised.value.errors] == ["a: gone.", "b: lost."]


def test_properties_of_the_connection_override_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.actions.librdkafka.check_reachable", lambda connection: None)
    connection = Connection("b:1", {"security.protocol": "SSL", "linger.ms": "9"})
    config = client_config(connection, **{"linger.ms": 5, "acks": "all"})
    assert (config["bootstrap.servers"], config["security.protocol"]) == ("b:1", "SSL")
    assert (config["linger.ms"], config["acks"]) == ("9", "all")
