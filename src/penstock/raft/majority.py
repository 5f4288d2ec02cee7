"""Majorities of voters."""

from collections.abc import Collection, Sequence

from penstock.model.ids import NodeId, Offset


def majority_count(voter_count: int) -> int:
    """Return the size of a majority; any two majorities share a voter."""
    return voter_count // 2 + 1


def is_majority(some: Collection[NodeId], voters: Collection[NodeId]) -> bool:
    return len(set(some) & set(voters)) >= majority_count(len(voters))


def held_by_majority(ends: Sequence[Offset]) -> Offset:
    """Return the highest offset that a majority of voters has reached, given the durable end of each."""
    return sorted(ends, reverse=True)[majority_count(len(ends)) - 1]
