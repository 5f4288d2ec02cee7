"""Running of scenarios against two brokers, and reports of the differences."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from tests.differential.compare import Mismatch, compare, report
from tests.differential.differences import unexplained
from tests.differential.scenario import Scenario, listener_of
from tests.differential.session import Session, Step
from tests.support.security import Certificates

BROKER_PROPERTIES = {
    "log.retention.check.interval.ms": "3600000",
    "log.initial.task.delay.ms": "3600000",
    "group.initial.rebalance.delay.ms": "0",
    "group.max.size": "4",
    "group.consumer.max.size": "4",
    "group.consumer.assignment.interval.ms": "0",
    "group.share.assignment.interval.ms": "0",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
}
"""Settings of both brokers: the records have fixed old timestamps and must be retained during the comparison; groups
form without delay, and have few members."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of one scenario."""

    name: str
    steps: list[Step]
    """Kafka's transcript."""
    faults: list[Mismatch]
    excused: int

    def __str__(self) -> str:
        head = f"{'differs' if self.faults else 'alike  '}  {self.name}  ({len(self.steps)} steps"
        head += f", {self.excused} deliberate differences)" if self.excused else ")"
        return f"{head}\n{report(self.faults)}" if self.faults else head


@dataclass(frozen=True, slots=True)
class Peers:
    """Both brokers: each a function that returns the address of a listener."""

    kafka: Callable[[str], str]
    penstock: Callable[[str], str]
    certificates: Certificates


def transcript(
    name: str, scenario: Scenario, addresses: Callable[[str], str], certificates: Certificates
) -> list[Step]:
    """Run a scenario against one broker. If it cannot continue, that is its last step."""
    host, _, port = addresses(listener_of(scenario)).rpartition(":")
    session = Session(name, host, int(port), addresses=addresses, certificates=certificates)
    try:
        scenario(session)
    except Exception as error:
        session.note("the scenario stopped", f"{type(error).__name__}: {error}")
    finally:
        session.hang_up()
    return session.steps


def judge(name: str, scenario: Scenario, peers: Peers) -> Verdict:
    """Run a scenario against both brokers and compare."""
    left = transcript(name, scenario, peers.kafka, peers.certificates)
    right = transcript(name, scenario, peers.penstock, peers.certificates)
    mismatches = compare(name, left, right)
    faults = unexplained(mismatches)
    return Verdict(name, left, faults, len(mismatches) - len(faults))


def judge_all(
    scenarios: Iterable[tuple[str, Scenario]], peers: Peers, *, on_verdict: Callable[[Verdict], None]
) -> list[Verdict]:
    verdicts = []
    for name, scenario in scenarios:
        verdict = judge(name, scenario, peers)
        on_verdict(verdict)
        verdicts.append(verdict)
    return verdicts
