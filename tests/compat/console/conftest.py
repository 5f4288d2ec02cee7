"""Fixtures: a console for the broker under test, and records on it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pytest
from confluent_kafka import Producer

from penstock.sqlview import isolated
from tests.support.console import Browser, ConsoleServer, settings_for

Write = Callable[..., None]
MASKED = "masked"
"""A topic whose field `card` is hidden."""


@pytest.fixture(scope="module")
def browser(bootstrap: str) -> Iterator[Browser]:
    with ConsoleServer(settings_for(bootstrap, masks={MASKED: ("$.card",)})) as browser:
        yield browser
    isolated.close_idle()


@pytest.fixture(scope="session")
def write(bootstrap: str) -> Write:
    """Write values, or pairs of key and value, to a partition of a topic."""

    def write(topic: str, records: Sequence[bytes | tuple[bytes | None, bytes | None]], *, partition: int = 0) -> None:
        producer = Producer({"bootstrap.servers": bootstrap, "message.max.bytes": 100_000_000})
        failures: list[object] = []
        for record in records:
            key, value = record if isinstance(record, tuple) else (None, record)
            on_delivery = lambda error, _: failures.append(error) if error is not None else None  # noqa: E731
            producer.produce(topic, value, key, partition=partition, on_delivery=on_delivery)
        assert producer.flush(60) == 0
        assert not failures

    return write
