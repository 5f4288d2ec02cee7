"""The cluster that `penstock cluster start` runs in a folder: whether it runs, and how to stop it.

The process that runs it locks the folder as a node locks its data folder, and writes its process id to `cluster.pid`.
The lock ends with the process, so a file that is left over from a killed process means nothing.
"""

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

from penstock.cli.errors import CommandError
from penstock.ports.real.folder_lock import is_folder_locked, lock_folder

PID_FILE = "cluster.pid"
STOP_S_MAX = 60.0
_POLL_S = 0.05


@contextlib.contextmanager
def running_cluster(folder: Path) -> Iterator[None]:
    """Mark the cluster of a folder as running. Raises CommandError if another process runs it."""
    folder.mkdir(parents=True, exist_ok=True)
    try:
        lock = lock_folder(str(folder))
    except BlockingIOError:
        raise CommandError(
            f"The cluster in {folder} is already running, as process {running_pid(folder)}. "
            f"Stop it with 'penstock cluster stop --data {folder}', or choose another folder with --data."
        ) from None
    pid_file = folder / PID_FILE
    try:
        pid_file.write_text(f"{os.getpid()}\n", encoding="ascii")
        yield
    finally:
        pid_file.unlink(missing_ok=True)
        lock.release()


def supervised_folder(data: Path) -> Path:
    """Return the folder of the supervisor: the data folder of a cluster, or a folder in that of a machine."""
    from penstock.cli.cluster.core_options import FOLDER

    return data / FOLDER if (data / FOLDER / PID_FILE).exists() else data


def stop_cluster(folder: Path) -> int:
    """Stop the cluster of a folder and wait until all its nodes have stopped; return the process id it had."""
    folder = supervised_folder(folder)
    pid = running_pid(folder)
    if pid is None:
        raise CommandError(f"No cluster is running in {folder}. Pass the folder of a running one with --data.")
    os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + STOP_S_MAX
    while running_pid(folder) == pid:
        if time.monotonic() > deadline:
            raise CommandError(f"Process {pid} has not stopped within {STOP_S_MAX:.0f} s. See the logs in {folder}.")
        time.sleep(_POLL_S)
    return pid


def running_pid(folder: Path) -> int | None:
    """Return the id of the process that runs the cluster of a folder; None if none does."""
    if not is_folder_locked(str(folder)):
        return None
    try:
        return int((folder / PID_FILE).read_text(encoding="ascii"))
    except (FileNotFoundError, ValueError):
        # The process is starting or stopping.
        return None
