"""Starting a reassignment and showing its progress."""

import sys
import time
from collections.abc import Sequence

from penstock.actions.cluster.reassignment import reassignment_progress, start_reassignment
from penstock.actions.connection import Connection
from penstock.actions.errors import ActionError
from penstock.controller.replica_plan import ReplicaMove

POLL_S = 0.5


def reassign(connection: Connection, moves: Sequence[ReplicaMove], *, wait: bool) -> None:
    if not moves:
        print("nothing to move")
        return
    start_reassignment(connection, moves)
    print(f"moving {len(moves)} partitions", file=sys.stderr)
    if wait:
        _show_progress(connection, moves)


def _show_progress(connection: Connection, moves: Sequence[ReplicaMove]) -> None:
    """Wait until every partition has moved. Ctrl-C ends the display, not the reassignment."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as display:
        task = display.add_task("moving", total=None)
        while True:
            try:
                progress = reassignment_progress(connection, moves)
            except ActionError:
                # A leader may be changing.
                time.sleep(POLL_S)
                continue
            text = f"{progress.partitions_done} of {progress.partitions_total} partitions"
            display.update(task, description=text, completed=progress.bytes_done, total=progress.bytes_total or None)
            if progress.is_complete:
                break
            time.sleep(POLL_S)
    print(f"{len(moves)} partitions moved")
