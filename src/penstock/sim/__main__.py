"""Run seeds: `python -m penstock.sim --seeds 1000 --first 1`, or one of them again with `--verbose`.

Several processes share the seeds; a line now and then says how far they are. Ends with 1 if a seed
broke an invariant, or a long campaign never reached a state that it is there for. With `--bug` a
planted bug is switched on, and the run ends well once a seed has found it.
"""

from __future__ import annotations

import argparse
import multiprocessing
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from functools import partial

from penstock.ports.real import RealClock
from penstock.sim import ablations
from penstock.sim.plan import draw
from penstock.sim.shrink import shrink
from penstock.sim.world import Result, World, run_seed

SAID_EVERY_S = 5.0
SEEDS_PER_PROCESS = 40
LONG_CAMPAIGN = 500
MUST_HAPPEN = ("kill", "power loss", "clean stop", "sync fails", "disk full", "rot", "late request", "clock jump")
"""A long campaign without one of these tests something else than it says."""


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m penstock.sim", description="Run the node in a simulated world.")
    parser.add_argument("--seeds", type=int, default=200, help="how many seeds to run (default: 200)")
    parser.add_argument("--first", type=int, default=1, help="the first of them (default: 1)")
    parser.add_argument("--bug", default="", help=f"plant a bug: {', '.join(ablations.BUGS)}")
    parser.add_argument("--nodes", type=int, default=None, help="so many nodes in each world (default: drawn)")
    parser.add_argument("--jobs", type=int, default=2, help="how many processes (default: 2)")
    parser.add_argument("--verbose", action="store_true", help="tell what happens, for a single seed")
    parser.add_argument("--keep-going", action="store_true", help="run all seeds whatever they find")
    options = parser.parse_args(arguments)
    if options.bug and options.bug not in ablations.BUGS:
        parser.error(f"no bug is called {options.bug}: choose one of {', '.join(ablations.BUGS)}")
    if options.verbose:
        return _replay(options.first, options.bug, options.nodes)
    return _campaign(options)


def _campaign(options: argparse.Namespace) -> int:
    clock = RealClock()
    began = said = clock.monotonic()
    done = 0
    simulated_s = 0.0
    faults: Counter[str] = Counter()
    sometimes: Counter[str] = Counter()
    failures: list[Result] = []
    for result in _results(options):
        done += 1
        simulated_s += result.simulated_s
        faults.update(result.faults)
        sometimes.update(result.sometimes)
        if result.violations:
            failures.append(result)
            if options.bug:
                print(f"{options.bug}: found by seed {result.seed}, the {done}. that was run: {result.violations[0]}")
                return 0
            print(report(result, options.nodes), flush=True)
        if clock.monotonic() - said >= SAID_EVERY_S or done == options.seeds:
            said = clock.monotonic()
            rate = done / (said - began)
            print(
                f"{done}/{options.seeds} seeds, {simulated_s / 3600:.1f} simulated hours, "
                f"{sum(faults.values())} faults, {len(failures)} violations, {rate:.1f} seeds/s",
                flush=True,
            )
        if len(failures) >= 5 and not options.keep_going:
            break
    print("faults:", ", ".join(f"{name} {count}" for name, count in sorted(faults.items())))
    print("reached:", ", ".join(f"{name} {count}" for name, count in sorted(sometimes.items())) or "nothing rare")
    if options.bug:
        print(f"{options.bug}: not found in {done} seeds")
        return 1
    missing = [name for name in MUST_HAPPEN if not faults[name]] if done >= LONG_CAMPAIGN else []
    if missing:
        print(f"never happened: {', '.join(missing)}")
    return 1 if failures or missing else 0


def _results(options: argparse.Namespace) -> Iterator[Result]:
    seeds = range(options.first, options.first + options.seeds)
    run = partial(_run, options.bug, options.nodes)
    if options.jobs <= 1 or options.seeds == 1:
        yield from map(run, seeds)
        return
    # Modules are imported once, worlds are not shared: a process that has run some seeds is replaced.
    context = multiprocessing.get_context("fork")
    with context.Pool(options.jobs, maxtasksperchild=SEEDS_PER_PROCESS) as pool:
        yield from pool.imap_unordered(run, seeds)


def _run(bug: str, nodes: int | None, seed: int) -> Result:
    with ablations.planted(bug):
        return run_seed(seed, nodes=nodes)


def report(result: Result, nodes: int | None = None) -> str:
    """A failure in words: what broke, where to look, how to see it again."""
    lines = [
        f"seed {result.seed} broke {len(result.violations)} times, trace {result.digest}, commit {_commit()}",
        f"  {result.summary}",
    ]
    lines += [f"  ! {violation}" for violation in result.violations[:10]]
    for owner, tail in result.tails.items():
        if owner.startswith(("node", "world")):
            lines.append(f"  last events of {owner}:")
            lines += [f"    {line}" for line in tail[-12:]]
    shown = "" if nodes is None else f" --nodes {nodes}"
    lines.append(f"  again: python -m penstock.sim --first {result.seed} --verbose{shown}")
    return "\n".join(lines)


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


def _commit() -> str:
    try:
        found = subprocess.run(
            ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False, timeout=5
        )
    except OSError:
        return "unknown"
    return found.stdout.strip() or "unknown"


if __name__ == "__main__":
    sys.exit(main())
