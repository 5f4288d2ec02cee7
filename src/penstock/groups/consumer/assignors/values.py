"""The inputs and results of assignors, as plain values."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final
from uuid import UUID

Assignment = Mapping[UUID, frozenset[int]]
"""Partitions by topic id. A topic without partitions is left out."""

GroupAssignment = dict[str, Assignment]
"""By member id; every member has an entry."""

NOTHING: Final[Assignment] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberSubscription:
    """A member as input of an assignor. Members with equal `topics` should share the same set object."""

    topics: frozenset[UUID]
    target: Assignment = field(default_factory=lambda: NOTHING)
    """The member's current target; kept as far as balance allows."""
    instance_id: str | None = None
    rack_id: str | None = None


Assignor = Callable[[Mapping[str, MemberSubscription], Mapping[UUID, int]], GroupAssignment]
