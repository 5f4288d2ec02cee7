"""penstock log: dump and verify the files of a data folder without a broker, and accept the loss of damaged records.

Only `accept-loss` writes.
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
    help="Dump and verify the files of a data folder.",
    epilog="Example: penstock log verify ./data",
    no_args_is_help=True,
)

FolderArgument = Annotated[
    Path, typer.Argument(metavar="DIR", help="Data folder, or the folder of one partition.", show_default=False)
]


class DumpKind(StrEnum):
    """What dump prints a row for."""

    SEGMENTS = "segments"
    BATCHES = "batches"
    RECORDS = "records"
    INDEXES = "indexes"


COLUMNS = {
    DumpKind.SEGMENTS: "partition segment size batches records first_offset last_offset max_timestamp state",
    DumpKind.BATCHES: "partition segment position size base_offset last_offset records leader_epoch codec "
    "max_timestamp timestamp_type producer_id producer_epoch base_sequence transactional control",
    DumpKind.RECORDS: "partition segment offset timestamp key value headers",
    DumpKind.INDEXES: "partition segment index offset position timestamp",
}


@app.command("dump", epilog="Example: penstock log dump ./data/orders-0 --what batches")
def dump(
    folder: FolderArgument,
    what: Annotated[DumpKind, typer.Option("--what", "-w", help="What to print rows of.")] = DumpKind.SEGMENTS,
    format: FormatOption = Format.TABLE,
) -> None:
    """Print the segments, batches, records or index entries of a log."""
    from penstock.actions import log_files

    readers: dict[DumpKind, Callable[[Disk, list[SegmentFiles]], Iterator[dict[str, Any]]]] = {
        DumpKind.SEGMENTS: log_files.dump_segments,
        DumpKind.BATCHES: log_files.dump_batches,
        DumpKind.RECORDS: log_files.dump_records,
        DumpKind.INDEXES: log_files.dump_indexes,
    }
    disk, segments = _open(folder)
    show(list(readers[what](disk, segments)), COLUMNS[what].split(), format)


@app.command("verify", epilog="Example: penstock log verify ./data --format json")
def verify(folder: FolderArgument, format: FormatOption = Format.TABLE) -> None:
    """Check the checksums and indexes of a log. Exits with code 1 if records are damaged."""
    from penstock.actions import log_files

    disk, segments = _open(folder)
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
    partition: Annotated[
        str, typer.Argument(metavar="TOPIC-PARTITION", help="Partition, for example orders-0.", show_default=False)
    ],
    data: Annotated[Path, typer.Option("--data", help="Data folder of a stopped broker.", show_default=False)],
    yes: Annotated[bool, typer.Option("--yes", help="Give up the records. By default they are only listed.")] = False,
) -> None:
    """Give up the missing and damaged records of a log that no other replica has."""
    from penstock.model.errors import PenstockError
    from penstock.ports.real import RealClock, RealDisk, RealEntropy
    from penstock.storage.accept_loss import accept_loss as accept
    from penstock.storage.partition_folder import METADATA_FOLDER, parse_folder

    topic_partition = parse_folder(partition)
    if topic_partition is None or partition == METADATA_FOLDER:
        raise CommandError(f"Invalid partition '{partition}': expected TOPIC-PARTITION, for example orders-0.")
    try:
        found = accept(
            RealDisk(), str(data).rstrip("/"), topic_partition, clock=RealClock(), entropy=RealEntropy(), confirmed=yes
        )
    except (PenstockError, OSError) as problem:
        raise CommandError(f"Cannot accept the loss of {partition}: {problem}.") from None
    if found.damage is None:
        typer.echo(f"{topic_partition} is not damaged.")
        return
    typer.echo(found.damage)
    for first, last in found.given_up:
        typer.echo(f"{'given up' if yes else 'to be given up'}: offsets {first} to {last} ({last - first + 1})")
    if not found.end_is_known:
        typer.echo("The end of the log is unknown: all of its offsets are given up.")
    verb = "starts" if yes else "would start"
    typer.echo(
        f"The log {verb} at offset {found.start_offset}, and new records get offsets from {found.end_offset} on."
    )
    if not yes:
        typer.echo("Dry run: nothing was changed. Pass --yes to give up these offsets.")


def _open(folder: Path) -> "tuple[Disk, list[SegmentFiles]]":
    from penstock.actions.log_files import open_segments
    from penstock.ports.real import RealDisk

    disk = RealDisk()
    return disk, open_segments(disk, str(folder))
