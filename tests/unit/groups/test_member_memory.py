"""The memory budget for member metadata."""

import pytest

from penstock.coordinator.errors import CoordinatorNotAvailable
from penstock.groups.member_memory import MEASURED_EVERY_S, SMALL_SIZE_MAX, MemberMemory


def test_members_are_accepted_up_to_the_budget() -> None:
    memory = MemberMemory(lambda: 0)
    for _ in range(10):
        memory.admit(100_000, budget=1_000_000, now=0.0)
    with pytest.raises(CoordinatorNotAvailable):
        memory.admit(100_000, budget=1_000_000, now=0.0)


def test_members_with_little_metadata_are_always_accepted() -> None:
    memory = MemberMemory(lambda: 2_000_000)
    memory.admit(SMALL_SIZE_MAX, budget=1_000_000, now=0.0)
    with pytest.raises(CoordinatorNotAvailable):
        memory.admit(SMALL_SIZE_MAX + 1, budget=1_000_000, now=0.0)


def test_memory_of_removed_members_is_free_again() -> None:
    held = [900_000]
    memory = MemberMemory(lambda: held[0])
    with pytest.raises(CoordinatorNotAvailable):
        memory.admit(200_000, budget=1_000_000, now=0.0)
    held[0] = 0
    memory.admit(200_000, budget=1_000_000, now=MEASURED_EVERY_S)
