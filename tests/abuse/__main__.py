"""python -m tests.abuse [--attack NAME] [--seconds N] [--peer kafka]: exit code 1 if the node failed an attack."""

from __future__ import annotations

import argparse
import json
import sys
from fnmatch import fnmatch
from pathlib import Path
from subprocess import SubprocessError

from tests.abuse.attack import Attack
from tests.abuse.campaign import ChildFailed, NoCompiler, Result, run
from tests.abuse.catalogue import ATTACKS
from tests.abuse.report import Progress, heading, markdown, ratios, row


def main() -> int:
    arguments = _arguments()
    chosen = _chosen(arguments.attack, is_compared=arguments.peer is not None)
    if arguments.list:
        for attack in chosen:
            print(f"{attack.name:<22} {attack.family:<20} {attack.what}")
        return 0
    results: list[Result] = []
    failed = False
    progress = Progress()
    print(heading(), flush=True)
    peers = ["penstock", arguments.peer] if arguments.peer else ["penstock"]
    for number, attack in enumerate(chosen, 1):
        for peer in peers:
            label = f"{number}/{len(chosen)} {attack.name} {peer}: "
            try:
                result = run(
                    attack, seconds=arguments.seconds, seed=arguments.seed, scale=arguments.scale, peer=peer,
                    progress=lambda text, label=label: progress.show(label + text),  # type: ignore[misc]
                )  # fmt: skip
            except NoCompiler as error:
                print(f"{attack.name:<22} {peer:<12} skipped: {error}", flush=True)
                continue
            except (ChildFailed, AssertionError, OSError, SubprocessError) as error:
                progress.clear()
                print(f"{attack.name:<22} {peer:<12} could not be run: {type(error).__name__}: {error}", flush=True)
                failed = True
                continue
            progress.clear()
            print(row(result), flush=True)
            results.append(result)
            if arguments.output is not None:
                with arguments.output.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(result.as_json()) + "\n")
    for line in ratios(results):
        print(line)
    if arguments.markdown:
        print("\n".join(markdown(results)))
    ours = [result for result in results if result.node == "Penstock"]
    broken = [result.attack for result in ours if not result.holds]
    print(
        f"{len(ours) - len(broken)} of {len(ours)} attacks were "
        f"withstood{'; failed: ' if broken else ''}{', '.join(broken)}"
    )
    return 1 if broken or failed else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.abuse",
        description="Attack a live node while a well-behaved client uses it, and report violations.",
    )
    parser.add_argument("--attack", action="append", help="a name, a pattern or a family; may be repeated")
    parser.add_argument("--seconds", type=float, default=10.0, help="minimum duration of each attack")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--scale", type=float, default=1.0, help="fraction of the clients, names and bytes")
    parser.add_argument("--peer", choices=["kafka"], help="run decompression and uploads against Apache Kafka too")
    parser.add_argument("--output", type=Path, help="append a line of JSON for each attack to this file")
    parser.add_argument("--markdown", action="store_true", help="print the table for docs/reliability.md at the end")
    parser.add_argument("--list", action="store_true", help="list the attacks and exit")
    return parser.parse_args()


def _chosen(patterns: list[str] | None, *, is_compared: bool) -> list[Attack]:
    found = [
        attack
        for attack in ATTACKS
        if (attack.compared or not is_compared)
        and (not patterns or any(fnmatch(attack.name, each) or each == attack.family for each in patterns))
    ]
    if not found:
        sys.exit(f"no attack matches {patterns}; --list shows them")
    return found


if __name__ == "__main__":
    sys.exit(main())
