"""The cluster that `penstock cluster start` runs in a folder: whether it runs, and how to stop it.

The process that runs it holds a lock on `cluster.pid` in the folder and writes its process id there. The lock ends with
the process, so a file that is left over from a killed process means nothing.
"""

import contextlib
import errno
import fcntl
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

from penstock.cli.errors import CommandError

PID_FILE = "cluster.pid"
STOP_S_MAX = 60.0
_POLL_S = 0.05


@contextlib.contextmanager
def running_cluster(folder: Path) -> Iterator[None]:
    """Mark the cluster of a folder as running. Raises CommandError if another process runs it."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / PID_FILE).open("a+", encoding="ascii") as file:
        if not _lock(file.fileno()):
            raise CommandError(
                f"The cluster in {folder} is already running, as process {_read_pid(folder)}. "
                f"Stop it with 'penstock cluster stop --data {folder}', or choose another folder with --data."
            )
        file.seek(0)
        file.truncate()
        file.write(f"{os.getpid()}\n")
        file.flush()
        try:
            yield
        finally:
            (folder / PID_FILE).unlink(missing_ok=True)


def stop_cluster(folder: Path) -> int:
    """Stop the cluster of a folder and wait until all its nodes have stopped; return the process id it had."""
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
    try:
        with (folder / PID_FILE).open("r+", encoding="ascii") as file:
            return None if _lock(file.fileno()) else _read_pid(folder)
    except FileNotFoundError:
        return None


def _lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
            raise
        return False
    return True


def _read_pid(folder: Path) -> int:
    return int((folder / PID_FILE).read_text(encoding="ascii"))
