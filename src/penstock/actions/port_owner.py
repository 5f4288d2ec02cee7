"""The process that listens on a port of this machine, as far as /proc tells: for messages about a port in use."""

import os
from pathlib import Path
from typing import NamedTuple

_LISTEN = "0A"
_TABLES = ("/proc/net/tcp", "/proc/net/tcp6")


class PortOwner(NamedTuple):
    pid: int
    command: str

    @property
    def is_penstock(self) -> bool:
        return "penstock" in self.command


def find_owner(port: int) -> PortOwner | None:
    """Return the process that listens on a port; None if there is none, or it may not be looked at."""
    inodes = set().union(*(_listening(table, port) for table in _TABLES))
    if not inodes:
        return None
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and _holds(folder, inodes):
            return PortOwner(int(folder.name), _command(folder))
    return None


def describe_owner(port: int) -> str:
    """Return a sentence about the process that listens on a port; empty if it cannot be found."""
    owner = find_owner(port)
    if owner is None:
        return ""
    kind = "Penstock process" if owner.is_penstock else "process"
    return f"The {kind} {owner.pid} listens there: {owner.command[:120]}"


def _listening(table: str, port: int) -> set[str]:
    """Return the inodes of the sockets that listen on a port."""
    try:
        lines = Path(table).read_text().splitlines()[1:]
    except OSError:
        return set()
    fields = [line.split() for line in lines]
    return {each[9] for each in fields if each[3] == _LISTEN and int(each[1].rpartition(":")[2], 16) == port}


def _holds(process: Path, inodes: set[str]) -> bool:
    try:
        for descriptor in (process / "fd").iterdir():
            target = os.readlink(descriptor)
            if target.startswith("socket:[") and target[8:-1] in inodes:
                return True
    except OSError:
        # It ended meanwhile, or belongs to another user.
        return False
    return False


def _command(process: Path) -> str:
    try:
        return (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return ""
