"""penstock topic skew: partitions and keys with more than their share of the records."""

from typing import Annotated

import typer

from penstock.actions.connection import Connection
from penstock.actions.positions import parse_duration_ms
from penstock.actions.skew.advice import advise, render_key
from penstock.actions.skew.measurement import measure_partitions, observe, partition_rows, sample_keys
from penstock.cli.completion import complete_topic
from penstock.cli.output import Format, FormatOption, show
from penstock.cli.progress import Progress

EXAMPLE = "Example: penstock topic skew orders --since 1h --sample 200000"
PARTITION_COLUMNS = ["partition", "offsets", "recent", "recent_share", "bytes", "bytes_share"]


def skew(
    connection: Connection,
    topic: Annotated[
        str, typer.Argument(metavar="TOPIC", help="Topic name.", show_default=False, autocompletion=complete_topic)
    ],
    since: Annotated[
        str, typer.Option("--since", metavar="DURATION", help="Age up to which records are recent: 15m, 1h, 7d.")
    ] = "1h",
    sample: Annotated[
        int, typer.Option("--sample", min=0, metavar="N", help="Sample the keys of about N of the newest records.")
    ] = 100_000,
    keys: Annotated[int, typer.Option("--keys", min=1, metavar="N", help="Show the N heaviest keys.")] = 10,
    format: FormatOption = Format.TABLE,
) -> None:
    """Find the busiest partitions and keys of a topic and suggest remedies."""
    partitions = measure_partitions(connection, topic, parse_duration_ms(since))
    with Progress(f"reading {topic}", total=None, shown=True) as progress:
        sampled = sample_keys(
            connection, topic, partitions, sample, advance=lambda size, done: progress.advance(size, done=done)
        )
    observed, gini = observe(partitions, sampled, keys)
    rows = partition_rows(partitions)
    if format is not Format.TABLE:
        show([{"topic": topic, **row} for row in rows], ["topic", *PARTITION_COLUMNS], format)
        return
    print(f"{topic}: busiest partition {observed.imbalance:.2f} x the mean, Gini {gini:.2f} over the last {since}")
    show(rows, PARTITION_COLUMNS, format)
    if observed.sampled:
        print(f"\nheaviest keys of the newest {observed.sampled:,} records ({observed.keyless:,} without a key)")
        key_rows = [
            {"key": render_key(heavy.key), "partition": heavy.partition, "share": f"{heavy.share:.1%}"}
            for heavy in observed.heavy
        ]
        show(key_rows, ["key", "partition", "share"], format)
    print()
    for line in advise(observed):
        print(line)
