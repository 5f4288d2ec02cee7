"""The server's assignors (KIP-848), which decide which member should own which partition.

Pure functions of the members with their current targets and of the partition counts of the
topics: the same input gives the same result, in any order. Racks are part of the input but
are ignored, as in Kafka 4.3. Refuses nothing; a topic without a count has no partitions.
"""

from collections.abc import Mapping
from typing import Final

from penstock.groups.consumer.assignors import range as range_assignor
from penstock.groups.consumer.assignors import uniform
from penstock.groups.consumer.assignors.values import (
    NOTHING,
    Assignment,
    Assignor,
    GroupAssignment,
    MemberSubscription,
)

ASSIGNORS: Final[Mapping[str, Assignor]] = {"uniform": uniform.assign, "range": range_assignor.assign}

__all__ = ["ASSIGNORS", "NOTHING", "Assignment", "Assignor", "GroupAssignment", "MemberSubscription"]
