"""penstock log: look into the files of a data folder, without a broker, and accept the loss of damaged records.

All but `accept-loss` only read. Next: log_files.py, storage/accept_loss.py. Beside a running broker the end of the
newest segment may be half written at the moment of reading, which verify then reports as a torn end.
"""

from collections.abc import Callable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.cli.errors import CommandError
from penstock.cli.output import Format, FormatOption, show

if TYPE_CHECKING:
    from penstock.actions.log_files import SegmentFiles
    from penstock.ports.disk import Disk

app = typer.Typer(
    help="Look into the files of a data folder.",
    epilog="Example: penstock log verify ./data",
    no_args_is_help=True,
)

FolderArgument = Annotated[
    Path, typer.Argument(metavar="DIR", help="A data folder, or one partition's folder in it.", show_default=False)
]


class What(StrEnum):
    """What dump prints a row for."""

    SEGMENTS = "segments"
    BATCHES = "batches"
    RECORDS = "records"
    INDEXES = "indexes"


COLUMNS = {
    What.SEGMENTS: "partition segment size batches records first_offset last_offset max_timestamp state",
    What.BATCHES: "partition segment position size base_offset last_offset records leader_epoch codec max_timestamp "
    "timestamp_type producer_id producer_epoch base_sequence transactional control",
    What.RECORDS: "partition segment offset timestamp key value headers",
    What.INDEXES: "partition segment index offset position timestamp",
}


@app.command("dump", epilog="Example: penstock log dump ./data/orders-0 --what batches")
def dump(
    folder: FolderArgument,
    what: Annotated[What, typer.Option("--what", "-w", help="A row for each of these.")] = What.SEGMENTS,
    format: FormatOption = Format.TABLE,
) -> None:
    """Print the segments, batches, records or index entries of a log."""
    from penstock.actions import log_files

    readers: dict[What, Callable[[Disk, list[SegmentFiles]], Iterator[dict[str, Any]]]] = {
        What.SEGMENTS: log_files.dump_segments,
        What.BATCHES: log_files.dump_batches,
        What.RECORDS: log_files.dump_records,
        What.INDEXES: log_files.dump_indexes,
    }
    disk, segments = _find(folder)
    show(list(readers[what](disk, segments)), COLUMNS[what].split(), format)


@app.command("verify", epilog="Example: penstock log verify ./data --format json")
def verify(folder: FolderArgument, format: FormatOption = Format.TABLE) -> None:
    """Check every checksum and index of a log. Exit code 1 if records are damaged."""
    from penstock.actions import log_files

    disk, segments = _find(folder)
    findings = list(log_files.verify(disk, segments))
    rows = [
        {
            "file": finding.file,
            "position": finding.position,
            "kind": "damage" if finding.damage else "mended at start",
            "problem": finding.problem,
            "next_step": finding.next_step,
        }
        for finding in findings
    ]
    if rows or format is not Format.TABLE:
        show(rows, ["file", "position", "kind", "problem", "next_step"], format)
    damaged = sum(finding.damage for finding in findings)
    summary = f"{len(segments)} segments read, {damaged} damaged, {len(findings) - damaged} files to be mended at start"
    typer.echo(summary, err=True)
    if damaged:
        raise typer.Exit(1)


@app.command("accept-loss", epilog="Example: penstock log accept-loss --data ./data orders-0 --yes")
def accept_loss(
    partition: Annotated[str, typer.Argument(metavar="TOPIC-PARTITION", help="The partition.", show_default=False)],
    data: Annotated[Path, typer.Option("--data", help="The data folder of a stopped broker.", show_default=False)],
    yes: Annotated[bool, typer.Option("--yes", help="Give the offsets up. Without it they are only listed.")] = False,
) -> None:
    """Give up the missing and damaged records of a log, when no other replica has them."""
    from penstock.model.errors import PenstockError
    from penstock.ports.real import RealClock, RealDisk, RealEntropy
    from penstock.storage.accept_loss import accept_loss as accept
    from penstock.storage.partition_folder import METADATA_FOLDER, parse_folder

    place = parse_folder(partition)
    if place is None or partition == METADATA_FOLDER:
        raise CommandError(f"{partition} is no partition of a topic: give its name and index, such as orders-0.")
    try:
        found = accept(
            RealDisk(), str(data).rstrip("/"), place, clock=RealClock(), entropy=RealEntropy(), confirmed=yes
        )
    except (PenstockError, OSError) as problem:
        raise CommandError(f"The loss cannot be accepted: {problem}.") from None
    if found.damage is None:
        typer.echo(f"{place} is not damaged: nothing is to be given up.")
        return
    typer.echo(found.damage)
    for first, last in found.given_up:
        typer.echo(f"{'given up' if yes else 'to be given up'}: offsets {first} to {last} ({last - first + 1})")
    if not found.end_is_known:
        typer.echo("Where the log ended is not known: all of its offsets are given up.")
    verb = "begins" if yes else "would begin"
    typer.echo(f"The log {verb} at offset {found.start_offset}, and new records go to {found.end_offset}.")
    if not yes:
        typer.echo("Nothing was changed. Give up these offsets with --yes.")


def _find(folder: Path) -> "tuple[Disk, list[SegmentFiles]]":
    from penstock.actions.log_files import find_segments
    from penstock.ports.real import RealDisk

    disk = RealDisk()
    try:
        segments = find_segments(disk, str(folder))
    except NotADirectoryError:
        raise CommandError(f"{folder} is a file: give the folder of a partition, or the data folder.") from None
    except FileNotFoundError:
        raise CommandError(f"There is no folder {folder}: give the --data folder of a broker.") from None
    if not segments:
        raise CommandError(
            f"{folder} holds no segments: give the --data folder of a broker or a partition's folder in it."
        )
    return disk, segments
