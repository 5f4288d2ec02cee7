"""penstock doctor: run the steps of a client one by one and report each result.

Checks the host name, the port, the protocol, the API versions and the advertised addresses; on the broker's machine
also the data folder, its disk and the clock.
"""

from pathlib import Path
from typing import Annotated

import typer

from penstock.actions.connection import Connection
from penstock.cli.output import Format, FormatOption, show

EXAMPLE = "Example: penstock doctor --bootstrap localhost:9092 --data ./data"


def doctor(
    connection: Connection,
    data: Annotated[
        Path | None, typer.Option("--data", "-d", metavar="DIR", help="Check this data folder too.")
    ] = None,
    spark: Annotated[
        bool, typer.Option("--spark", help="Check Spark on this machine too: Java, and the Python of its workers.")
    ] = False,
    format: FormatOption = Format.TABLE,
) -> None:
    """Diagnose why a client cannot connect. Exits with code 1 if a check fails."""
    from penstock.actions.doctor import check_clock, check_cluster, check_data
    from penstock.actions.spark_doctor import check_spark

    results = [*check_cluster(connection), *(check_data(data) if data is not None else []), check_clock(data)]
    if spark:
        results.extend(check_spark())
    show([result._asdict() for result in results], ["check", "state", "found", "next_step"], format)
    if any(result.state == "wrong" for result in results):
        raise typer.Exit(1)
