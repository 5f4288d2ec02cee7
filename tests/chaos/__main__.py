"""python -m tests.chaos --minutes 5 [--seed N] [--report FILE]: non-zero exit on a violation."""

import argparse
import sys
import tempfile
from pathlib import Path

from tests.chaos.report import summary, write
from tests.chaos.run import run


def main() -> int:
    parser = argparse.ArgumentParser(
        description="Inject faults into three real nodes under real clients, and check the clients' histories."
    )
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--report", type=Path, default=Path(tempfile.gettempdir()) / "chaos.html")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="penstock-chaos-") as folder:
        outcome, _ = run(Path(folder), length_s=60 * arguments.minutes, seed=arguments.seed)
    write(arguments.report, outcome)
    for line in (*summary(outcome), *outcome.violations[:20], f"wrote the timeline to {arguments.report}"):
        print(line)
    return 1 if outcome.violations else 0


if __name__ == "__main__":
    sys.exit(main())
