"""Tests that metadata is requested again when a broker dies during the request, and only then."""

from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from tests.support.topic_metadata import REQUEST_S_MAX, cluster_metadata


class Admin:
    """An admin client that returns the given outcomes in turn."""

    def __init__(self, *outcomes: Any) -> None:
        self._outcomes = iter(outcomes)
        self.asked: list[dict[str, Any]] = []

    def list_topics(self, **asked: Any) -> Any:
        self.asked.append(asked)
        outcome = next(self._outcomes)
        if isinstance(outcome, int):
            raise KafkaException(KafkaError(outcome))
        return outcome


def test_a_lost_request_is_repeated() -> None:
    described: Any = object()
    admin: Any = Admin(KafkaError._TIMED_OUT, KafkaError._TRANSPORT, described)
    assert cluster_metadata(admin, "orders") is described
    assert admin.asked == [{"topic": "orders", "timeout": REQUEST_S_MAX}] * 3


def test_all_topics_are_requested_without_a_name() -> None:
    described: Any = object()
    admin: Any = Admin(described)
    assert cluster_metadata(admin) is described
    assert admin.asked == [{"timeout": REQUEST_S_MAX}]


@pytest.mark.parametrize("code", [KafkaError._TIMED_OUT, KafkaError.TOPIC_AUTHORIZATION_FAILED])
def test_a_rejection_or_a_timeout_is_raised(code: int) -> None:
    admin: Any = Admin(code)
    with pytest.raises(KafkaException):
        cluster_metadata(admin, seconds_max=-1.0 if code == KafkaError._TIMED_OUT else 60.0)
