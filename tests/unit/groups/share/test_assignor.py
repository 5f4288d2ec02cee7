"""The assignor `simple`: coverage, balance, stickiness."""

from collections import Counter
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from penstock.groups.consumer.assignors import GroupAssignment, MemberSubscription
from penstock.groups.share.assignor import assign

A, B = UUID(int=1), UUID(int=2)


def members(
    count: int, topics: frozenset[UUID], before: GroupAssignment | None = None
) -> dict[str, MemberSubscription]:
    before = before or {}
    return {
        f"m{number:02}": MemberSubscription(topics=topics, target=before.get(f"m{number:02}", {}))
        for number in range(count)
    }


def flat(assignment: GroupAssignment) -> Counter[tuple[UUID, int]]:
    return Counter((topic, index) for target in assignment.values() for topic in target for index in target[topic])


def sizes(assignment: GroupAssignment) -> list[int]:
    return [sum(map(len, target.values())) for target in assignment.values()]


def test_members_share_a_partition() -> None:
    assignment = assign(members(5, frozenset({A})), {A: frozenset({0})})
    assert flat(assignment) == {(A, 0): 5}
    assert sizes(assignment) == [1] * 5


def test_partitions_that_are_not_initialized_are_not_assigned() -> None:
    assert assign(members(2, frozenset({A, B})), {A: frozenset()}) == {"m00": {}, "m01": {}}


@given(st.integers(1, 12), st.integers(0, 12), st.integers(0, 12))
def test_everything_is_assigned_and_balanced(count: int, of_a: int, of_b: int) -> None:
    assignable = {A: frozenset(range(of_a)), B: frozenset(range(of_b))}
    assignment = assign(members(count, frozenset({A, B})), assignable)
    shared = flat(assignment)
    assert shared.keys() == {(topic, index) for topic, indexes in assignable.items() for index in indexes}
    if shared:
        sharing = -(-count // (of_a + of_b))
        assert max(shared.values()) <= sharing
        assert max(sizes(assignment)) - min(sizes(assignment)) <= 1
        assert min(sizes(assignment)) >= 1


@given(st.integers(1, 8), st.integers(1, 8), st.integers(1, 8), st.integers(1, 8))
def test_assignments_are_kept(count: int, partitions: int, new_count: int, new_partitions: int) -> None:
    first = assign(members(count, frozenset({A})), {A: frozenset(range(partitions))})
    again = assign(members(count, frozenset({A}), first), {A: frozenset(range(partitions))})
    assert again == first, "nothing moves without a reason"
    after = assign(members(new_count, frozenset({A}), first), {A: frozenset(range(new_partitions))})
    assert flat(after).keys() == {(A, index) for index in range(new_partitions)}
    assert max(sizes(after)) - min(sizes(after)) <= 1


@given(st.lists(st.sampled_from([frozenset({A}), frozenset({B}), frozenset({A, B})]), min_size=1, max_size=8))
def test_different_subscriptions(subscriptions: list[frozenset[UUID]]) -> None:
    group = {f"m{number}": MemberSubscription(topics=topics) for number, topics in enumerate(subscriptions)}
    assignable = {A: frozenset(range(3)), B: frozenset(range(2))}
    assignment = assign(group, assignable)
    for member_id, target in assignment.items():
        assert target.keys() <= group[member_id].topics
    wanted = frozenset().union(*subscriptions)
    assert flat(assignment).keys() == {(topic, index) for topic in wanted for index in assignable[topic]}
