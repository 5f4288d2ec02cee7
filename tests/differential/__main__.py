"""`python -m tests.differential`: runs every scenario against both brokers.

python -m tests.differential                       Apache Kafka and Penstock, both started here
python -m tests.differential -k produce -v         only scenarios with 'produce' in the name; every step
python -m tests.differential --penstock host:port  a running Penstock
python -m tests.differential --penstock apache     Kafka against itself, to find volatile fields
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.differential.run import BROKER_PROPERTIES, Peers, Verdict, judge_all
from tests.differential.scenario import PLAINTEXT, all_scenarios, listener_of
from tests.differential.secured import LISTENERS, secured_properties
from tests.support.apache_kafka import ApacheKafka
from tests.support.java_tools import JavaMissing
from tests.support.penstock_process import PenstockProcess
from tests.support.security import Certificates


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.differential", description="Compare the responses of Kafka and Penstock."
    )
    parser.add_argument("-k", dest="pattern", default="", help="only scenarios whose name contains this")
    parser.add_argument("-v", dest="verbose", action="store_true", help="print every step's answer from Kafka")
    parser.add_argument("--list", action="store_true", help="print the scenarios' names and stop")
    parser.add_argument("--kafka", default="apache", help="'apache' to start one, or host:port")
    parser.add_argument("--penstock", default="penstock", help="'penstock' or 'apache' to start one, or host:port")
    options = parser.parse_args()
    scenarios = [(name, run) for name, run in all_scenarios().items() if options.pattern in name]
    if options.list:
        print("\n".join(name for name, _ in scenarios))
        return 0
    if not {options.kafka, options.penstock} <= {"apache", "penstock"}:
        # A running broker has no listeners for them.
        scenarios = [(name, run) for name, run in scenarios if listener_of(run) == PLAINTEXT]
    with ExitStack() as running:
        certificates = Certificates(Path(running.enter_context(TemporaryDirectory())))
        try:
            kafka, penstock = (_broker(choice, running, certificates) for choice in (options.kafka, options.penstock))
        except JavaMissing as reason:
            print(f"not run: {reason}")
            return 0
        started = time.monotonic()
        on_verdict = _print_all if options.verbose else _print
        verdicts = judge_all(scenarios, Peers(kafka, penstock, certificates), on_verdict=on_verdict)
        seconds = time.monotonic() - started
    differing = [verdict for verdict in verdicts if verdict.faults]
    steps = sum(len(verdict.steps) for verdict in verdicts)
    print(f"\n{len(verdicts)} scenarios, {steps} steps in {seconds:.0f} s: {len(differing)} differ", end="")
    print(f", {sum(verdict.excused for verdict in verdicts)} fields differ on purpose")
    return 1 if differing else 0


def _broker(choice: str, running: ExitStack, certificates: Certificates) -> Callable[[str], str]:
    properties = BROKER_PROPERTIES | secured_properties(certificates)
    if choice == "apache":
        return running.enter_context(ApacheKafka(properties=properties, listeners=LISTENERS)).address
    if choice == "penstock":
        return running.enter_context(PenstockProcess(properties=properties, listeners=LISTENERS)).address
    return lambda _: choice


def _print(verdict: Verdict) -> None:
    print(verdict, flush=True)


def _print_all(verdict: Verdict) -> None:
    for step in verdict.steps:
        print(f"    {step.label}: {json.dumps(step.outcome, default=str)[:3000]}")
    _print(verdict)


if __name__ == "__main__":
    sys.exit(main())
