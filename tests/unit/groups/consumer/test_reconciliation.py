"""One step of a member towards its target: every state and every transition."""

from collections.abc import Mapping
from uuid import UUID

import pytest

from penstock.groups.consumer.assignors import Assignment
from penstock.groups.consumer.errors import FencedMemberEpoch
from penstock.groups.consumer.member import ConsumerMember, MemberState
from penstock.groups.consumer.reconciliation import Step, reconcile
from penstock.groups.consumer.records import AssignedPartitions, ConsumerGroupCurrentMemberAssignmentValue

FOO, BAR = UUID(int=1), UUID(int=2)
STABLE, UNREVOKED, UNRELEASED, UNKNOWN = MemberState


def member(state: MemberState, assigned: dict[int, int], revoking: dict[int, int] | None = None) -> ConsumerMember:
    return ConsumerMember(
        id="a",
        epoch=5,
        previous_epoch=4,
        state=state,
        assigned={FOO: assigned} if assigned else {},
        revoking={FOO: revoking} if revoking else {},
    )


def step(
    target: Assignment,
    *,
    epoch: int = 6,
    owned: Assignment | None = None,
    owners: Mapping[UUID, Mapping[int, str]] | None = None,
    subscribed: tuple[UUID, ...] = (FOO, BAR),
    has_new_subscription: bool = False,
) -> Step:
    return Step(
        target_epoch=epoch,
        target=target,
        subscribed=frozenset(subscribed),
        has_new_subscription=has_new_subscription,
        owned=owned,
        owners=owners or {},
    )


def foo(*numbers: int) -> Assignment:
    return {FOO: frozenset(numbers)}


@pytest.mark.parametrize(
    ("before", "given", "state", "epoch", "assigned", "revoking"),
    [
        # A newer target exists.
        (member(STABLE, {1: 3}), step(foo(1)), STABLE, 6, {1: 3}, {}),
        (member(STABLE, {1: 3}), step(foo(1, 2)), STABLE, 6, {1: 3, 2: 6}, {}),
        (member(STABLE, {1: 3, 2: 3}), step(foo(1)), UNREVOKED, 5, {1: 3}, {2: 3}),
        (member(STABLE, {1: 3, 2: 3}), step(foo(1), owned=foo(1)), STABLE, 6, {1: 3}, {}),
        (member(STABLE, {1: 3, 2: 3}), step(foo(1, 4), owned=foo(2)), UNREVOKED, 5, {1: 3}, {2: 3}),
        (member(STABLE, {1: 3}), step(foo(1, 2), owners={FOO: {2: "b"}}), UNRELEASED, 6, {1: 3}, {}),
        (member(STABLE, {}), step(foo(1, 2), owners={FOO: {2: "b"}}), UNRELEASED, 6, {1: 6}, {}),
        # The member has revoked its partitions, or has not.
        (member(UNREVOKED, {1: 3}, {2: 3}), step(foo(1), owned=foo(1)), STABLE, 6, {1: 3}, {}),
        (member(UNREVOKED, {1: 3}, {2: 3}), step(foo(1), owned=foo(1, 2)), UNREVOKED, 5, {1: 3}, {2: 3}),
        (member(UNREVOKED, {1: 3}, {2: 3}), step(foo(1)), UNREVOKED, 5, {1: 3}, {2: 3}),
        (
            member(UNREVOKED, {1: 3}, {2: 3}),
            step(foo(1, 2), owned=foo(1), owners={FOO: {1: "a", 2: "a"}}),
            STABLE,
            6,
            {1: 3, 2: 6},
            {},
        ),
        (member(UNREVOKED, {1: 3, 3: 3}, {2: 3}), step(foo(1), owned=foo(1, 3)), UNREVOKED, 5, {1: 3}, {3: 3}),
        # The awaited partition is free, is still owned, or is no longer in the target.
        (member(UNRELEASED, {1: 3}), step(foo(1, 2), epoch=5), STABLE, 5, {1: 3, 2: 5}, {}),
        (member(UNRELEASED, {1: 3}), step(foo(1, 2), epoch=5, owners={FOO: {2: "b"}}), UNRELEASED, 5, {1: 3}, {}),
        (member(UNRELEASED, {1: 3}), step(foo(1)), STABLE, 6, {1: 3}, {}),
        (member(UNRELEASED, {1: 3}), step(foo(2), owners={FOO: {2: "b"}}), UNREVOKED, 5, {}, {1: 3}),
        # The member subscribes to other topics, which the target does not reflect yet.
        (
            member(STABLE, {1: 3}),
            step(foo(1), epoch=5, subscribed=(BAR,), has_new_subscription=True),
            UNREVOKED,
            5,
            {},
            {1: 3},
        ),
        (
            member(STABLE, {1: 3}),
            step(foo(1), epoch=5, subscribed=(BAR,), has_new_subscription=True, owned={}),
            STABLE,
            5,
            {},
            {},
        ),
        (
            member(UNREVOKED, {1: 3}, {2: 3}),
            step(foo(1), subscribed=(BAR,), has_new_subscription=True, owned=foo(2)),
            UNREVOKED,
            5,
            {},
            {1: 3, 2: 3},
        ),
        (member(STABLE, {1: 3}), step(foo(1, 2), subscribed=(BAR,)), UNREVOKED, 5, {}, {1: 3}),
        # The state was written by a later release.
        (member(UNKNOWN, {1: 3}), step(foo(1), owned={}), STABLE, 6, {1: 3}, {}),
    ],
)
def test_a_step_of_reconciliation(
    before: ConsumerMember,
    given: Step,
    state: MemberState,
    epoch: int,
    assigned: dict[int, int],
    revoking: dict[int, int],
) -> None:
    after = reconcile(before, given)
    assert (after.state, after.epoch) == (state, epoch)
    assert after.assigned.get(FOO, {}) == assigned
    assert after.revoking.get(FOO, {}) == revoking


@pytest.mark.parametrize(
    ("before", "given"),
    [
        (member(STABLE, {1: 3}), step(foo(1), epoch=5)),
        (member(STABLE, {1: 3}), step(foo(1), epoch=5, has_new_subscription=True)),
        (member(UNREVOKED, {1: 3}, {2: 3}), step(foo(1), has_new_subscription=True)),
    ],
)
def test_without_a_change_the_same_member_is_returned(before: ConsumerMember, given: Step) -> None:
    assert reconcile(before, given) is before


@pytest.mark.parametrize("owned", [None, foo(1)])
def test_a_member_in_an_unknown_state_is_fenced(owned: Assignment | None) -> None:
    with pytest.raises(FencedMemberEpoch):
        reconcile(member(UNKNOWN, {1: 3}), step(foo(1), owned=owned))


def test_records_of_earlier_and_later_releases_can_be_read() -> None:
    old = ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=-2,
        previous_member_epoch=4,
        state=99,
        assigned_partitions=(AssignedPartitions(topic_id=FOO, partitions=(1, 2), assignment_epochs=None),),
    )
    restored = ConsumerMember(id="a").with_assignment(old)
    assert restored.state is UNKNOWN
    assert restored.assigned == {FOO: {1: 0, 2: 0}}
