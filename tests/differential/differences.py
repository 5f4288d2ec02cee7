"""Deliberate differences from Apache Kafka, each with its reason.

A mismatch is excused by the first row whose patterns all match (shell style: * and ?).
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
    kafka: str = "*"
    penstock: str = "*"

    def excuses(self, mismatch: Mismatch) -> bool:
        pairs = (
            (mismatch.scenario, self.scenario),
            (mismatch.step, self.step),
            (mismatch.path, self.path),
            (str(mismatch.left), self.kafka),
            (str(mismatch.right), self.penstock),
        )
        return all(fnmatchcase(text, pattern.replace("[", "[[]")) for text, pattern in pairs)


DIFFERENCES: tuple[Difference, ...] = (
    Difference(
        "*", "*api_versions*", "api_keys[*]",
        "only APIs whose semantics are there are advertised; the scenarios about single APIs compare their ranges",
    ),
    Difference(
        "*", "*api_versions*", "*_features[*]",
        "a feature is finalised when its semantics are there: clients act on what they are promised",
    ),
    Difference(
        "*", "*describe_configs*", "*configs[flush.mode]*",
        "Penstock's own option: fsync before an acks=all answer, or leave it to the operating system as Kafka does",
    ),
    Difference(
        "*", "*describe_configs*", "*configs[min.insync.replicas]*",
        "Kafka's feature eligible.leader.replicas.version writes a cluster-wide min.insync.replicas; "
        "Penstock has that feature when it has replicas",
    ),
    Difference(
        "names of all broker configs", "*", "*",
        "options of parts that Penstock does not have: threads, Kerberos, OAuth, tiering",
        penstock="<absent>",
    ),
    Difference(
        "names of all broker configs", "*", "*",
        "options that are Penstock's own",
        kafka="<absent>",
    ),
    Difference(
        "broker configs", "*", "*configs[*].*source",
        "node.id and process.roles stand in Kafka's file; in Penstock they are defaults",
        kafka="4", penstock="5",
    ),
    Difference(
        "*", "*create_topics*", "*configs[flush.mode]*",
        "Penstock's own option, as above",
    ),
)  # fmt: skip


def unexplained(mismatches: Iterable[Mismatch]) -> list[Mismatch]:
    return [one for one in mismatches if not any(row.excuses(one) for row in DIFFERENCES)]
