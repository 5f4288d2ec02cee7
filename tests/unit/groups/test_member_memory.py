"""Which members are let in while others hold much memory."""

import pytest

from penstock.coordinator.errors import CoordinatorNotAvailable
from penstock.groups.member_memory import MEASURED_EVERY_S, SMALL_SIZE_MAX, MemberMemory


def test_members_are_let_in_up_to_the_budget() -> None:
    memory = MemberMemory(lambda: 0)
    for _ in range(10):
        memory.take(100_000, budget=1_000_000, now=0.0)
    with pytest.raises(CoordinatorNotAvailable):
        memory.take(100_000, budget=1_000_000, now=0.0)


def test_members_that_send_little_are_always_let_in() -> None:
    memory = MemberMemory(lambda: 2_000_000)
    memory.take(SMALL_SIZE_MAX, budget=1_000_000, now=0.0)
    with pytest.raises(CoordinatorNotAvailable):
        memory.take(SMALL_SIZE_MAX + 1, budget=1_000_000, now=0.0)


def test_what_members_have_taken_with_them_is_free_again() -> None:
    held = [900_000]
    memory = MemberMemory(lambda: held[0])
    with pytest.raises(CoordinatorNotAvailable):
        memory.take(200_000, budget=1_000_000, now=0.0)
    held[0] = 0
    memory.take(200_000, budget=1_000_000, now=MEASURED_EVERY_S)
