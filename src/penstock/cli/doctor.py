"""penstock doctor: why can I not connect?

Walks the way a client walks, one step at a time, and says at each step what it found and
what to do: name, port, protocol, versions, the addresses the cluster hands out, and on the
broker's own machine the data folder, its disk and the clock. Next: checks.py.
"""

from pathlib import Path
from typing import Annotated

import typer

from penstock.actions.connection import DEFAULT_BOOTSTRAP, BootstrapOption
from penstock.cli.output import Format, FormatOption, show

EXAMPLE = "Example: penstock doctor --bootstrap broker.example:9092 --data ./data"


def doctor(
    data: Annotated[
        Path | None, typer.Option("--data", "-d", metavar="DIR", help="Look at this data folder too.")
    ] = None,
    format: FormatOption = Format.TABLE,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Find out why a client cannot connect. Exit code 1 if something is wrong."""
    from penstock.actions.doctor import check_clock, check_cluster, check_data

    results = [*check_cluster(bootstrap), *(check_data(data) if data is not None else []), check_clock(data)]
    rows = [result._asdict() for result in results]
    show(rows, ["check", "state", "found", "next_step"], format)
    if any(result.state == "wrong" for result in results):
        raise typer.Exit(1)
