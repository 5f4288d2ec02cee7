"""`.kafka_cleanshutdown`: the proof that the previous process closed the data folder, in Kafka's format.

It has the broker epoch of that process: a controller that still knows the epoch can tell that nothing was lost.
"""

import json
from contextlib import suppress
from typing import Final

from penstock.ports.disk import Disk

FILE_NAME: Final = ".kafka_cleanshutdown"
NO_BROKER_EPOCH: Final = -1


def take(disk: Disk, folder: str) -> int | None:
    """Remove the file and return its broker epoch; return None if there is no file."""
    path = f"{folder}/{FILE_NAME}"
    if not disk.exists(path):
        return None
    broker_epoch = NO_BROKER_EPOCH
    # The files of older releases and of Kafka are empty.
    with suppress(ValueError, KeyError, TypeError):
        broker_epoch = int(json.loads(disk.read_file(path))["brokerEpoch"])
    disk.remove(path)
    return broker_epoch


def write(disk: Disk, folder: str, broker_epoch: int) -> None:
    content = json.dumps({"version": 0, "brokerEpoch": broker_epoch}).encode()
    disk.replace_file(f"{folder}/{FILE_NAME}", content)


def remove(disk: Disk, folder: str) -> None:
    """Remove what a failed write may have left."""
    with suppress(OSError):
        disk.remove(f"{folder}/{FILE_NAME}")
