from types import SimpleNamespace
from typing import Any

from penstock.config.settings import BrokerSettings, default_topic_settings
from penstock.model.ids import NodeId
from penstock.replication.throttle import FOLLOWER, LEADER, Rate, Throttle

TWO = NodeId(2)


def partition(*, leader: tuple[str, ...] = (), follower: tuple[str, ...] = (), index: int = 0) -> Any:
    settings = default_topic_settings(
        leader_replication_throttled_replicas=leader, follower_replication_throttled_replicas=follower
    )
    return SimpleNamespace(index=index, log=SimpleNamespace(settings=settings))


def throttle(side: str, rate: int | None, now: list[float]) -> Throttle:
    given = {} if rate is None else {f"{side}.replication.throttled.rate": str(rate)}
    return Throttle(side, lambda: now[0], BrokerSettings().with_dynamic(cluster={}, node=given))


def test_a_rate_ignores_bytes_before_its_windows() -> None:
    rate = Rate(window_count=11, window_s=1.0)
    rate.add(1000, 100.5)
    rate.add(1000, 101.5)
    assert rate.measure(101.5) == 2000 / 10.5
    assert rate.measure(111.5) == 1000 / 10.5
    assert rate.measure(200.0) == 0


def test_without_a_rate_no_replica_is_throttled() -> None:
    held = throttle(LEADER, None, [0.0])
    held.spend(1 << 40)
    assert not held.holds_back(partition(leader=("*",)), TWO, is_member=False)


def test_named_replicas_are_throttled_unless_they_are_in_sync() -> None:
    now = [100.0]
    held = throttle(LEADER, 100, now)
    everybody = partition(leader=("*",))
    assert not held.holds_back(everybody, TWO, is_member=False)
    held.spend(2000)
    assert held.holds_back(everybody, TWO, is_member=False)
    assert not held.holds_back(everybody, TWO, is_member=True)
    now[0] = 111.0
    assert not held.holds_back(everybody, TWO, is_member=False)


def test_each_side_has_its_list_of_throttled_partitions_and_brokers() -> None:
    held = throttle(FOLLOWER, 100, [100.0])
    held.spend(5000)
    assert held.holds_back(partition(follower=("3:2",), index=3), TWO, is_member=False)
    assert not held.holds_back(partition(follower=("3:2",), index=4), TWO, is_member=False)
    assert not held.holds_back(partition(leader=("*",)), TWO, is_member=False)
