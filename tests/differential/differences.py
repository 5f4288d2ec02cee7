"""Deliberate differences from Apache Kafka, each with its reason.

A mismatch is excused by the first row whose three patterns match (shell style: * and ?).
Anything not listed here is a fault of ours, or a row that has yet to be argued for.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase

from tests.differential.compare import Mismatch


@dataclass(frozen=True, slots=True)
class Difference:
    """Which mismatches are meant to be there, and why."""

    scenario: str
    step: str
    path: str
    reason: str

    def excuses(self, mismatch: Mismatch) -> bool:
        pairs = ((mismatch.scenario, self.scenario), (mismatch.step, self.step), (mismatch.path, self.path))
        return all(fnmatchcase(text, pattern.replace("[", "[[]")) for text, pattern in pairs)


DIFFERENCES: tuple[Difference, ...] = (
    Difference(
        "*", "*api_versions*", "api_keys[*]",
        "only APIs whose semantics are there are advertised; the scenarios about single APIs compare their ranges",
    ),
)  # fmt: skip


def unexplained(mismatches: Iterable[Mismatch]) -> list[Mismatch]:
    return [one for one in mismatches if not any(row.excuses(one) for row in DIFFERENCES)]
