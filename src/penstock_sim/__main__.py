"""Command line of the simulator: `python -m penstock_sim --seeds 1000 --first 1`, or one seed with `--verbose`.

Several processes share the seeds; progress is printed periodically. The exit code is 1 if a seed violated an
invariant, or if a long campaign never reached one of the states it should test. `--bug` plants a bug, and the run
succeeds when a seed has found it; `--bug all` plants each.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

from penstock.ports.real import RealClock
from penstock_sim import ablations
from penstock_sim.campaign import Figures, OtherCampaign, Record, commit, report
from penstock_sim.plan import draw
from penstock_sim.shrink import shrink
from penstock_sim.workers import SEED_S_MAX, Task, run_tasks
from penstock_sim.world import World

PROGRESS_INTERVAL_S = 5.0
ALL = "all"
EXAMPLES = """examples:
  python -m penstock_sim --seeds 20000 --keep-going --output campaign.jsonl
      a long campaign; restarted with the same file, it continues
  python -m penstock_sim --first 32 --verbose
      the events of one seed
  python -m penstock_sim --bug all --seeds 1000
      the number of seeds until each planted bug is found
"""


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m penstock_sim",
        description="Run clusters in a deterministic simulation.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--seeds", type=int, default=200, help="number of seeds (default: 200)")
    parser.add_argument("--first", type=int, default=1, help="first seed (default: 1)")
    parser.add_argument(
        "--bug", default="", help=f"plant bugs, one by one: {ALL}, or some of {', '.join(ablations.BUGS)}"
    )
    parser.add_argument("--nodes", type=int, default=None, help="number of nodes (default: random)")
    cores = os.cpu_count() or 1
    parser.add_argument("--jobs", type=int, default=cores, help=f"number of processes (default: one per core, {cores})")
    parser.add_argument("--verbose", action="store_true", help="print all events; for a single seed")
    parser.add_argument("--keep-going", action="store_true", help="continue after a violation")
    parser.add_argument("--output", type=Path, default=None, help="append results to this file, and continue from it")
    parser.add_argument(
        "--seed-timeout",
        type=float,
        default=SEED_S_MAX,
        help=f"maximum CPU seconds per seed (default: {SEED_S_MAX:.0f})",
    )
    options = parser.parse_args(arguments)
    bugs = list(ablations.BUGS) if options.bug == ALL else [name for name in options.bug.split(",") if name]
    for name in bugs:
        if name not in ablations.BUGS:
            parser.error(f"unknown bug {name}: choose from {', '.join(ablations.BUGS)}")
    signal.signal(signal.SIGTERM, _interrupted)
    if options.verbose:
        return _replay(options.first, options.bug, options.nodes)
    if bugs:
        return _hunt(options, bugs)
    try:
        return _campaign(options)
    except OtherCampaign as refusal:
        parser.error(str(refusal))


def _interrupted(number: int, frame: object) -> NoReturn:
    raise KeyboardInterrupt


# -- campaigns -----------------------------------------------------------------------------


def _campaign(options: argparse.Namespace) -> int:
    figures, record, done = Figures(), None, set[int]()
    if options.output is not None:
        about = {"commit": commit(), "first": options.first, "nodes": options.nodes}
        record = Record(options.output, about)
        figures, done = record.figures, record.done
    tasks = (Task(seed, options.nodes) for seed in _seeds(options) if seed not in done)
    clock = RealClock()
    began = printed = clock.monotonic()
    before = figures.seeds
    try:
        for _, result in run_tasks([tasks] * options.jobs, seed_s_max=options.seed_timeout):
            figures.add(result)
            if record is not None:
                record.add(result)
            if result.violations:
                print(report(result, options.nodes), flush=True)
            if clock.monotonic() - printed >= PROGRESS_INTERVAL_S or figures.seeds == options.seeds:
                printed = clock.monotonic()
                print(figures.progress(options.seeds, (figures.seeds - before) / (printed - began)), flush=True)
            if len(figures.violations) >= 5 and not options.keep_going:
                break
    except KeyboardInterrupt:
        print(f"interrupted after {figures.seeds} of {options.seeds} seeds")
    finally:
        if record is not None:
            record.close()
    print(figures.in_words())
    missing = figures.missing(clusters=options.nodes != 1)
    if missing:
        print(f"never happened: {', '.join(missing)}")
    return 1 if figures.violations or missing or figures.seeds < options.seeds else 0


def _seeds(options: argparse.Namespace) -> range:
    return range(options.first, options.first + options.seeds)


# -- planted bugs --------------------------------------------------------------------------


def _hunt(options: argparse.Namespace, bugs: list[str]) -> int:
    """Plant each bug in turn until a seed finds it that passes without the bug."""
    found: dict[str, str] = {}
    broken: dict[tuple[str, int], str] = {}
    waiting = iter(bugs)

    def lane() -> Iterator[Task]:
        for bug in waiting:
            for count, seed in enumerate(_seeds(options), 1):
                yield Task(seed, options.nodes, bug)
                if (bug, seed) not in broken:
                    continue
                yield Task(seed, options.nodes)
                if ("", seed) not in broken:
                    found[bug] = broken[bug, seed]
                    print(f"{bug}: found by seed {seed} after {count} seeds: {found[bug]}", flush=True)
                    break
            else:
                print(f"{bug}: not found in {options.seeds} seeds", flush=True)

    lanes = [lane() for _ in range(min(options.jobs, len(bugs)))]
    for task, result in run_tasks(lanes, seed_s_max=options.seed_timeout):
        if result.violations:
            broken[task.bug, task.seed] = result.violations[0]
    print(f"{len(found)} of {len(bugs)} found")
    return 0 if len(found) == len(bugs) else 1


def _replay(seed: int, bug: str, nodes: int | None) -> int:
    with ablations.planted(bug):
        world = World(draw(seed, nodes=nodes))
        print(world.plan.summary())
        world.trace.on_event = lambda at, owner, kind, detail: print(
            f"{at:9.3f}s {owner:<14} {kind} {' '.join(map(str, detail))}"
        )
        result = world.run()
        print(report(result, nodes))
        if result.violations:
            print(f"shrunk: {shrink(seed, nodes=nodes).summary()}")
    return 1 if result.violations else 0


if __name__ == "__main__":
    sys.exit(main())
