"""A group's own values: within the broker's limits, and ignored if this release cannot read them."""

import pytest

from penstock.config.group import GROUP, check_group
from penstock.config.group_values import bounded_value, group_value
from penstock.config.settings import BrokerSettings
from penstock.model.errors import InvalidConfig

SESSION = "consumer.session.timeout.ms"
BROKER = BrokerSettings()


@pytest.mark.parametrize(
    ("own", "value"),
    [
        ({}, 45_000),
        ({SESSION: "50000"}, 50_000),
        ({SESSION: "1"}, 45_000),  # The lowest that the broker allows.
        ({SESSION: "99999999"}, 60_000),  # The highest.
        ({SESSION: "soon"}, 45_000),
    ],
)
def test_a_group_has_its_own_value_within_the_brokers_limits(own: dict[str, str], value: int) -> None:
    assert bounded_value(BROKER, own, SESSION) == value


@pytest.mark.parametrize(
    ("own", "value"), [({}, "latest"), ({"share.auto.offset.reset": "earliest"}, "earliest"),
                       ({"share.auto.offset.reset": "never heard of"}, "latest")],
)  # fmt: skip
def test_a_value_that_this_release_cannot_read_becomes_the_default(own: dict[str, str], value: str) -> None:
    assert group_value(own, "share.auto.offset.reset") == value


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({SESSION: 1}, f"{SESSION} must be greater than or equal to group.consumer.min.session.timeout.ms"),
        ({SESSION: 10**8}, f"{SESSION} must be less than or equal to group.consumer.max.session.timeout.ms"),
        (
            {"streams.num.standby.replicas": 99},
            "streams.num.standby.replicas must be less than or equal to group.streams.max.standby.replicas",
        ),
    ],
)
def test_a_value_outside_the_brokers_limits_is_rejected(changes: dict[str, int], why: str) -> None:
    with pytest.raises(InvalidConfig, match=why):
        check_group({name: option.default for name, option in GROUP.items()} | changes, BROKER)


def test_a_session_is_longer_than_the_interval_of_heartbeats() -> None:
    values = {name: option.default for name, option in GROUP.items()} | {
        SESSION: 45_000,
        "consumer.heartbeat.interval.ms": 45_000,
    }
    with pytest.raises(InvalidConfig, match=f"{SESSION} must be greater than consumer.heartbeat.interval.ms"):
        check_group(values, {})
