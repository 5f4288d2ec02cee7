"""Tests of the ISR invariants: brokers that must not join, and members that lack committed records."""

from types import SimpleNamespace
from typing import Any

import pytest

from penstock.metadata.image import PartitionImage
from penstock.model.ids import LeaderEpoch, NodeId
from penstock_sim.in_sync import members_behind, wrong_joiners


def state(*isr: int) -> PartitionImage:
    nodes = tuple(NodeId(each) for each in (1, 2, 3))
    return PartitionImage(
        leader=NodeId(1), leader_epoch=LeaderEpoch(0), replicas=nodes, isr=tuple(NodeId(each) for each in isr)
    )


def image(**changes: bool) -> Any:
    broker = SimpleNamespace(**{"fenced": False, "in_controlled_shutdown": False, "read_only": False, **changes})
    return SimpleNamespace(brokers={1: broker, 2: broker})


@pytest.mark.parametrize(
    ("joiner", "changes", "problem"),
    [
        (2, {}, None),
        (2, {"fenced": True}, "2 joins the ISR but is fenced"),
        (2, {"in_controlled_shutdown": True}, "2 joins the ISR but is shutting down"),
        (2, {"read_only": True}, "2 joins the ISR but cannot write"),
        (3, {}, "3 joins the ISR but is not registered"),
    ],
)
def test_only_an_active_broker_joins_the_isr(joiner: int, changes: dict[str, bool], problem: str | None) -> None:
    found = list(wrong_joiners(state(1), state(1, joiner), image(**changes)))
    assert found == ([] if problem is None else [problem])


def test_an_existing_member_is_not_a_joiner() -> None:
    assert list(wrong_joiners(state(1, 2), state(1, 2), image(fenced=True))) == []


def test_isr_members_have_all_readable_records() -> None:
    assert list(members_behind((1, 2, 3), 10, {1: 10, 2: None})) == []
    found = list(members_behind((1, 2, 3), 10, {1: 12, 2: 9, 3: 10}))
    assert found == ["2 is in the ISR with durable end 9, but the high watermark is 10"]
