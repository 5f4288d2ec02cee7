"""The pytest plugin: a real broker as a fixture.

`penstock_broker` is new for each test, `penstock_broker_shared` serves the whole run. Settings come from the fixture
`penstock_settings`, which a test module may override.
"""

from collections.abc import Iterator

import pytest

from penstock.testing.broker import Broker


@pytest.fixture
def penstock_settings() -> dict[str, str]:
    """Return settings for `penstock_broker`, by their Kafka names. Override it to change them."""
    return {}


@pytest.fixture
def penstock_broker(penstock_settings: dict[str, str]) -> Iterator[Broker]:
    """Provide a broker for one test: `penstock_broker.bootstrap` is its address."""
    with Broker(penstock_settings) as broker:
        yield broker


@pytest.fixture(scope="session")
def penstock_broker_shared() -> Iterator[Broker]:
    """Provide one broker for the whole run, with default settings. Use unique topic names."""
    with Broker() as broker:
        yield broker
