"""The pytest plugin: a real broker as a fixture.

`penstock_broker` is fresh for each test, `penstock_broker_shared` serves the whole run.
Settings come from the fixture `penstock_settings`, which a test module may define anew.
"""

from collections.abc import Iterator

import pytest

from penstock.testing.broker import Broker


@pytest.fixture
def penstock_settings() -> dict[str, str]:
    """Settings for `penstock_broker`, by their Kafka names. Define it again to change them."""
    return {}


@pytest.fixture
def penstock_broker(penstock_settings: dict[str, str]) -> Iterator[Broker]:
    """A broker of the test's own: `penstock_broker.bootstrap` is its address."""
    with Broker(penstock_settings) as broker:
        yield broker


@pytest.fixture(scope="session")
def penstock_broker_shared() -> Iterator[Broker]:
    """One broker for the whole run, with default settings. Use topic names of your own."""
    with Broker() as broker:
        yield broker
