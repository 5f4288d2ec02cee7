"""A rolling restart of the cluster that `penstock cluster start` runs in a folder.

The process that runs the cluster owns its nodes, so it restarts them: the file `restart` in the folder contains the id
of the node to restart. That process removes the file when the node is ready again, and writes `failed: REASON` to it
if that does not happen. The command restarts one node at a time and waits until all replicas are in sync.
"""

import contextlib
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from penstock.actions.cluster.config_files import NodePlan
from penstock.actions.cluster.status import active_controller, find_problems
from penstock.actions.connection import Connection
from penstock.actions.errors import ActionError
from penstock.cli.cluster.local import running_pid
from penstock.cli.errors import CommandError

REQUEST_FILE: Final = "restart"
FAILED: Final = "failed: "
RESTART_S_MAX: Final = 150.0
"""Longer than the process that runs the cluster waits for a node to stop and to start."""
IN_SYNC_S_MAX: Final = 300.0
_POLL_S: Final = 0.1


def restart_cluster(
    folder: Path, nodes: Sequence[NodePlan], connection: Connection, *, report: Callable[[str], None]
) -> None:
    """Restart the nodes one by one. Stops at the first one that does not come back in sync."""
    if running_pid(folder) is None:
        raise CommandError(f"No cluster is running in {folder}. Pass the folder of a running one with --data.")
    problems = find_problems(connection)
    if problems:
        raise CommandError(
            f"Cannot restart the cluster: {' '.join(problems)} Wait until 'penstock cluster status' reports no problem."
        )
    for node in restart_order(nodes, active_controller(connection)):
        began = time.monotonic()
        _restart_node(folder, node.node_id)
        _await_in_sync(node.node_id, connection)
        report(f"node {node.node_id} restarted and in sync after {time.monotonic() - began:.1f} s")


def restart_order(nodes: Sequence[NodePlan], controller: int) -> list[NodePlan]:
    """Return the nodes with the active controller last: earlier, each restart could elect the next node to restart."""
    return sorted(nodes, key=lambda node: (node.node_id == controller, node.node_id))


def read_request(folder: Path) -> int | None:
    """Return the node that a command wants to be restarted."""
    try:
        text = (folder / REQUEST_FILE).read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        return None
    return int(text) if text.isdigit() else None


def answer_request(folder: Path, *, problem: str | None) -> None:
    """Tell the command that the node is ready, or why not."""
    if problem is None:
        (folder / REQUEST_FILE).unlink(missing_ok=True)
    else:
        _write(folder / REQUEST_FILE, f"{FAILED}{problem}")


def _restart_node(folder: Path, node_id: int) -> None:
    path = folder / REQUEST_FILE
    _write(path, str(node_id))
    try:
        deadline = time.monotonic() + RESTART_S_MAX
        while (answer := _read(path)) == str(node_id):
            if running_pid(folder) is None:
                raise CommandError(f"The cluster stopped while node {node_id} was restarted. See the logs in {folder}.")
            if time.monotonic() > deadline:
                raise CommandError(
                    f"Node {node_id} was not restarted within {RESTART_S_MAX:.0f} s. See the logs in {folder}. "
                    "A cluster that was started by an older release must be stopped and started."
                )
            time.sleep(_POLL_S)
        if answer is not None:
            raise CommandError(f"Node {node_id} was not restarted: {answer.removeprefix(FAILED)}")
    finally:
        path.unlink(missing_ok=True)


def _await_in_sync(node_id: int, connection: Connection) -> None:
    deadline = time.monotonic() + IN_SYNC_S_MAX
    problems: list[str] = []
    while time.monotonic() < deadline:
        # A leader may be changing.
        with contextlib.suppress(ActionError):
            problems = find_problems(connection)
            if not problems:
                return
        time.sleep(_POLL_S)
    raise CommandError(
        f"Node {node_id} is running, but the cluster is not in sync after {IN_SYNC_S_MAX:.0f} s: {' '.join(problems)} "
        "The remaining nodes were not restarted."
    )


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        return None


def _write(path: Path, text: str) -> None:
    """Replace the file as a whole, so that the other process never reads a part of it."""
    new = path.with_suffix(".new")
    new.write_text(text, encoding="utf-8")
    os.replace(new, path)
