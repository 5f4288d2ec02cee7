"""One process uses a data folder at a time, whichever of the two kinds of lock it takes."""

import fcntl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from penstock.ports.real import folder_lock
from penstock.ports.real.folder_lock import is_folder_locked, lock_folder

# Kafka's lock: FileChannel.tryLock() is fcntl(F_SETLK) with a write lock on the whole file.
POSIX = "fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)"
# The only lock of earlier versions.
FLOCK = "fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)"
CHILD = """
import fcntl, sys
file = open(sys.argv[1], "ab")
try:
    {lock}
except OSError as error:
    print(type(error).__name__, flush=True)
else:
    print("locked", flush=True)
    sys.stdin.read()
"""


@contextmanager
def child(folder: Path, lock: str) -> Iterator[str]:
    """Start a process that takes the lock and holds it; yield what it prints."""
    process = subprocess.Popen(
        [sys.executable, "-c", CHILD.format(lock=lock), str(folder / ".lock")],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    with process:
        assert process.stdin is not None and process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.stdin.close()


@pytest.mark.parametrize("lock", [POSIX, FLOCK])
def test_a_locked_folder_is_refused_to_another_process(tmp_path: Path, lock: str) -> None:
    held = lock_folder(str(tmp_path))
    with child(tmp_path, lock) as output:
        assert output == "BlockingIOError"
    held.release()
    with child(tmp_path, lock) as output:
        assert output == "locked"


@pytest.mark.parametrize("lock", [POSIX, FLOCK])
def test_a_folder_that_another_process_has_locked_is_refused(tmp_path: Path, lock: str) -> None:
    with child(tmp_path, lock) as output:
        assert output == "locked"
        with pytest.raises(BlockingIOError):
            lock_folder(str(tmp_path))
        assert is_folder_locked(str(tmp_path))
    lock_folder(str(tmp_path)).release()


def test_a_second_lock_in_the_same_process_is_refused(tmp_path: Path) -> None:
    held = lock_folder(str(tmp_path))
    with pytest.raises(BlockingIOError):
        lock_folder(str(tmp_path))
    held.release()
    lock_folder(str(tmp_path)).release()


@pytest.mark.skipif(folder_lock._OFD_SETLK is None, reason="the system has no open file description locks")
def test_closing_another_descriptor_of_the_file_keeps_the_lock(tmp_path: Path) -> None:
    held = lock_folder(str(tmp_path))
    (tmp_path / ".lock").read_bytes()
    assert is_folder_locked(str(tmp_path))
    with child(tmp_path, POSIX) as output:
        assert output == "BlockingIOError"
    held.release()


def test_systems_without_open_file_description_locks_use_process_locks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder_lock, "_OFD_SETLK", None)
    held = lock_folder(str(tmp_path))
    with child(tmp_path, POSIX) as output:
        assert output == "BlockingIOError"
    held.release()
    with child(tmp_path, POSIX) as output:
        assert output == "locked"
        assert is_folder_locked(str(tmp_path))


def test_eacces_means_that_the_lock_is_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(folder_lock, "_OFD_SETLK", None)
    monkeypatch.setattr(fcntl, "lockf", refuse)
    with pytest.raises(BlockingIOError):
        lock_folder(str(tmp_path))


def test_checking_the_lock_creates_no_file_and_needs_no_write_permission(tmp_path: Path) -> None:
    assert not is_folder_locked(str(tmp_path))
    assert not list(tmp_path.iterdir())
    (tmp_path / ".lock").touch(mode=0o444)
    assert not is_folder_locked(str(tmp_path))
    with closing(open(tmp_path / ".lock")) as reader:
        fcntl.flock(reader, fcntl.LOCK_SH | fcntl.LOCK_NB)
        assert not is_folder_locked(str(tmp_path))
