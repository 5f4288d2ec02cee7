"""Tests that the comparison of a live shard with a replayed one reports each kind of difference."""

from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest

from penstock.groups.agreement import differences
from penstock.groups.classic.group import ClassicGroup
from penstock.groups.consumer.group import ConsumerGroup


def shard(*, offsets: int = 5, pending: int = 0, **groups: Any) -> Any:
    kept = SimpleNamespace(by_group={"g": offsets}, pending=SimpleNamespace(snapshot=lambda: pending))
    return SimpleNamespace(offsets=kept, groups=groups)


def classic(*, generation: int = 3, is_rebalancing: bool = False, state: str = "stable") -> Any:
    group = MagicMock(spec=ClassicGroup)
    group.configure_mock(
        id="g", type="classic", generation=generation, is_rebalancing=is_rebalancing, state=state, subscribed=("t",)
    )
    group.to_value.return_value = generation
    return group


def modern(*, epoch: int = 3) -> Any:
    group = MagicMock(spec=ConsumerGroup)
    group.configure_mock(id="g", type="consumer")
    group.snapshot.return_value = epoch
    return group


@pytest.mark.parametrize(
    ("live", "replayed", "said"),
    [
        (shard(), shard(offsets=6), "offsets: {'g': 5} and {'g': 6}"),
        (shard(pending=1), shard(), "pending: 1 and 0"),
        (shard(a=classic()), shard(b=classic()), "groups: ['a'] and ['b']"),
        (shard(g=modern()), shard(g=modern(epoch=4)), "g: 3 and 4"),
        (shard(g=modern()), shard(g=classic()), "g: consumer and classic"),
        (shard(g=classic()), shard(g=classic(generation=2)), "g: stable 3 and stable 2"),
        (shard(g=classic()), shard(g=classic(state="empty")), "g: stable 3 and empty 3"),
        (shard(g=classic(is_rebalancing=True)), shard(g=classic(generation=4)), "g: generation 3 and 4"),
    ],
)
def test_a_difference_is_described(live: Any, replayed: Any, said: str) -> None:
    assert differences(live, replayed) == [said]


@pytest.mark.parametrize(
    ("live", "replayed"),
    [
        (shard(g=classic()), shard(g=classic())),
        (shard(g=modern()), shard(g=modern())),
        # The log has the generation before the rebalance.
        (shard(g=classic(is_rebalancing=True)), shard(g=classic(generation=2))),
    ],
)
def test_equal_shards_have_no_difference(live: Any, replayed: Any) -> None:
    assert differences(live, replayed) == []
