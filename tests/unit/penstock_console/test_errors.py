import pytest
from confluent_kafka import KafkaError, KafkaException

from penstock.actions.errors import ActionError, ActionErrors, unknown_topic
from penstock.model.errors import InvalidConfig
from penstock.sqlview.errors import QueryError, TooManyQueries, too_slow
from penstock_client.errors import BrokerError, PenstockClientError
from penstock_console.errors import ApiError, api_error


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (unknown_topic("orders"), 404),
        (ActionError("x", code="GROUP_ID_NOT_FOUND"), 404),
        (ActionError("x", code="CONNECTION_REFUSED"), 502),
        (ActionError("x", code="_ALL_BROKERS_DOWN"), 502),
        (ActionError("x", code="_TIMED_OUT"), 504),
        (ActionError("x", code="TOPIC_AUTHORIZATION_FAILED"), 403),
        (ActionError("x", code="_AUTHENTICATION"), 401),
        (ActionError("x", code="INVALID_CONFIG"), 400),
        (ActionError("x"), 400),
        (ActionErrors([ActionError("a", code="_TIMED_OUT"), ActionError("b")]), 504),
        (QueryError("x"), 400),
        (TooManyQueries("x"), 429),
        (KafkaException(KafkaError(KafkaError._TIMED_OUT)), 504),
        (InvalidConfig("x"), 400),
        (PenstockClientError("x"), 502),
        (BrokerError(29, "reading orders-0"), 403),
        (BrokerError(3, "reading orders-0"), 404),
        (BrokerError(2, "reading orders-0"), 502),
        (ConnectionResetError(104, "reset"), 502),
        (ApiError(418, "TEAPOT", "x"), 418),
    ],
)
def test_an_error_has_a_status(error: Exception, status: int) -> None:
    found = api_error(error)
    assert found is not None and found.status == status
    assert found.content().keys() >= {"code", "message", "hint"}


def test_a_defect_is_not_an_error_of_the_user() -> None:
    assert api_error(ValueError("x")) is None


def test_options_of_the_command_line_are_not_recommended() -> None:
    found = api_error(too_slow(30.0))
    assert found is not None and "--" not in str(found)
