"""The server's assignors: complete, balanced, sticky, deterministic, and fast."""

import time
from collections.abc import Mapping
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.groups.consumer.assignors import ASSIGNORS, Assignment, MemberSubscription

TOPICS = [UUID(int=number) for number in range(1, 6)]
A, B, C, *_ = TOPICS


def members(*subscriptions: list[UUID]) -> dict[str, MemberSubscription]:
    return {f"m{index}": MemberSubscription(topics=frozenset(topics)) for index, topics in enumerate(subscriptions)}


def with_targets(
    group: Mapping[str, MemberSubscription], targets: Mapping[str, Assignment]
) -> dict[str, MemberSubscription]:
    return {
        member_id: MemberSubscription(
            topics=member.topics, target=targets.get(member_id, {}), instance_id=member.instance_id
        )
        for member_id, member in group.items()
    }


def sizes(assignment: Mapping[str, Assignment]) -> dict[str, int]:
    return {member_id: sum(map(len, given.values())) for member_id, given in assignment.items()}


def moved(before: Mapping[str, Assignment], after: Mapping[str, Assignment]) -> int:
    """Return how many partitions changed owner although their previous owner is still a member."""
    owner = {
        (topic, partition): member_id
        for member_id, given in after.items()
        for topic, partitions in given.items()
        for partition in partitions
    }
    return sum(
        owner.get((topic, partition)) != member_id
        for member_id, given in before.items()
        if member_id in after
        for topic, partitions in given.items()
        for partition in partitions
    )


# -- all assignors ---------------------------------------------------------------------------

counts_strategy = st.dictionaries(st.sampled_from(TOPICS), st.integers(0, 12), max_size=5)
group_strategy = st.dictionaries(
    st.sampled_from([f"m{index}" for index in range(8)]),
    st.frozensets(st.sampled_from(TOPICS), max_size=5),
    min_size=1,
    max_size=8,
)


@pytest.mark.parametrize("name", ASSIGNORS)
@settings(max_examples=150)
@given(first=group_strategy, second=group_strategy, counts=counts_strategy, more=counts_strategy)
def test_every_partition_has_one_subscriber_after_any_change(
    name: str,
    first: dict[str, frozenset[UUID]],
    second: dict[str, frozenset[UUID]],
    counts: dict[UUID, int],
    more: dict[UUID, int],
) -> None:
    assign = ASSIGNORS[name]
    before = assign({key: MemberSubscription(topics=topics) for key, topics in first.items()}, counts)
    group = {key: MemberSubscription(topics=topics, target=before.get(key, {})) for key, topics in second.items()}
    after = assign(group, more)
    assert after.keys() == group.keys()
    seen: set[tuple[UUID, int]] = set()
    for member_id, assigned in after.items():
        for topic, partitions in assigned.items():
            assert topic in group[member_id].topics and partitions
            assert seen.isdisjoint((topic, partition) for partition in partitions)
            seen |= {(topic, partition) for partition in partitions}
    wanted = {topic for member in group.values() for topic in member.topics}
    assert seen == {(topic, partition) for topic in wanted for partition in range(more.get(topic, 0))}
    backwards = assign(dict(reversed(group.items())), dict(reversed(more.items())))
    assert backwards == after
    assert assign(with_targets(group, after), more) == after


@pytest.mark.parametrize("name", ASSIGNORS)
@pytest.mark.parametrize("topic_count", [1, 100])
@pytest.mark.parametrize("is_mixed", [False, True])
def test_a_thousand_members_and_ten_thousand_partitions_take_less_than_a_second(
    name: str, topic_count: int, is_mixed: bool
) -> None:
    counts = {UUID(int=number + 1): 10_000 // topic_count for number in range(topic_count)}
    every = frozenset(counts)
    some = frozenset(list(counts)[: topic_count // 2 + 1]) if is_mixed else every
    group = {f"m{index}": MemberSubscription(topics=every if index % 3 else some) for index in range(1000)}
    started = time.process_time()
    assignment = ASSIGNORS[name](group, counts)
    assert time.process_time() - started < 0.8
    assert sum(sizes(assignment).values()) == 10_000


@pytest.mark.parametrize("name", ASSIGNORS)
def test_a_group_without_members_has_no_assignment(name: str) -> None:
    assert ASSIGNORS[name]({}, {A: 3}) == {}


# -- uniform ---------------------------------------------------------------------------------


def test_uniform_gives_shares_that_differ_by_one_at_most() -> None:
    given = ASSIGNORS["uniform"](members([A, B], [A, B], [A, B]), {A: 5, B: 6})
    assert sorted(sizes(given).values()) == [3, 4, 4]


@settings(max_examples=100)
@given(st.integers(1, 12), st.integers(1, 12), st.integers(0, 40))
def test_uniform_moves_only_partitions_that_balance_requires(
    old_count: int, new_count: int, partition_count: int
) -> None:
    assign = ASSIGNORS["uniform"]
    counts = {A: partition_count}
    before = assign(members(*[[A]] * old_count), counts)
    group = with_targets(members(*[[A]] * new_count), before)
    after = assign(group, counts)
    assert max(sizes(after).values()) - min(sizes(after).values()) <= 1
    # A remaining member gives up only what exceeds the largest share, and a larger share only if too many have one.
    least, larger_count = divmod(partition_count, new_count)
    kept = sorted((sizes(before).get(key, 0) for key in group), reverse=True)
    needed = sum(max(size - least - (index < larger_count), 0) for index, size in enumerate(kept))
    assert moved(before, after) == needed


def test_uniform_moves_nothing_when_nothing_changed() -> None:
    group = members([A, B], [A, B])
    before = ASSIGNORS["uniform"](group, {A: 4, B: 3})
    after = ASSIGNORS["uniform"](with_targets(group, before), {A: 4, B: 3})
    assert all(after[key] is before[key] for key in after)


def test_uniform_revokes_topics_that_a_member_no_longer_subscribes_to() -> None:
    group = {
        "m0": MemberSubscription(topics=frozenset([A]), target={A: frozenset([0]), B: frozenset([0, 1])}),
        "m1": MemberSubscription(topics=frozenset([A, B]), target={A: frozenset([1])}),
    }
    after = ASSIGNORS["uniform"](group, {A: 2, B: 2})
    assert after == {"m0": {A: frozenset([0, 1])}, "m1": {B: frozenset([0, 1])}}


def test_uniform_balances_across_topics_that_share_some_subscribers() -> None:
    given = ASSIGNORS["uniform"](members([A], [A, B], [B]), {A: 10, B: 10})
    assert max(sizes(given).values()) - min(sizes(given).values()) <= 2
    only = ASSIGNORS["uniform"](members([A, B], [A, B], [A, B, C]), {A: 4, B: 4, C: 1})
    assert sorted(sizes(only).values()) == [3, 3, 3]


def test_uniform_moves_partitions_off_a_full_member_when_subscriptions_differ() -> None:
    group = {
        "m0": MemberSubscription(topics=frozenset([A, B]), target={A: frozenset(range(6))}),
        "m1": MemberSubscription(topics=frozenset([A])),
    }
    after = ASSIGNORS["uniform"](group, {A: 6, B: 0})
    assert sizes(after) == {"m0": 3, "m1": 3}
    assert after["m0"][A] == frozenset([0, 1, 2])


# -- range -----------------------------------------------------------------------------------


def test_range_splits_topics_of_equal_size_in_the_same_way() -> None:
    given = ASSIGNORS["range"](members([A, B], [A, B]), {A: 3, B: 3})
    assert given == {
        "m0": {A: frozenset([0, 1]), B: frozenset([0, 1])},
        "m1": {A: frozenset([2]), B: frozenset([2])},
    }


def test_range_splits_each_topic_among_its_subscribers() -> None:
    given = ASSIGNORS["range"](members([A, B], [B], [A]), {A: 4, B: 2})
    assert given == {
        "m0": {A: frozenset([0, 1]), B: frozenset([0])},
        "m1": {B: frozenset([1])},
        "m2": {A: frozenset([2, 3])},
    }


def test_range_leaves_members_without_partitions_when_there_are_too_few() -> None:
    given = ASSIGNORS["range"](members([A], [A], [A]), {A: 2})
    assert given == {"m0": {A: frozenset([0])}, "m1": {A: frozenset([1])}, "m2": {}}


def test_range_puts_static_members_first_and_keeps_them_through_a_restart() -> None:
    def group(*ids: str) -> dict[str, MemberSubscription]:
        return {
            member_id: MemberSubscription(topics=frozenset([A]), instance_id=f"i{index}")
            for index, member_id in enumerate(ids)
        } | {"a-dynamic-one": MemberSubscription(topics=frozenset([A]))}

    before = ASSIGNORS["range"](group("x", "y"), {A: 3})
    after = ASSIGNORS["range"](group("q", "b"), {A: 3})
    assert before == {"x": {A: frozenset([0])}, "y": {A: frozenset([1])}, "a-dynamic-one": {A: frozenset([2])}}
    assert after["q"] == before["x"] and after["b"] == before["y"]
