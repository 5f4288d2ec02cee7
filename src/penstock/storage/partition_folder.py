"""The partition folders in a data folder: their names and topic ids (`partition.metadata`). Raises OSError."""

import re
from typing import Final
from uuid import UUID

from penstock.model.ids import PartitionIndex, TopicName, TopicPartition
from penstock.ports.disk import Disk
from penstock.storage.checkpoint import write_unsynced
from penstock.storage.meta_properties import decode_uuid, encode_uuid

PARTITION_METADATA: Final = "partition.metadata"
DELETE_SUFFIX: Final = "-delete"
STRAY_SUFFIX: Final = "-stray"
DAMAGED_SUFFIX: Final = "-damaged"
# The metadata log, which the quorum opens.
METADATA_FOLDER: Final = "__cluster_metadata-0"
_NAME_SIZE_MAX: Final = 255
_PARTITION_FOLDER: Final = re.compile(r"(?P<topic>[A-Za-z0-9._-]{1,249})-(?P<index>\d{1,10})")


def make_data_folder(disk: Disk, folder: str) -> None:
    """Create the data folder, durably with the folders above it."""
    path, changed = folder, list[str]()
    while path and not disk.exists(path):
        path = path.rpartition("/")[0]
        changed.append(path or "/")
    disk.make_folder(folder)
    for each in changed:
        disk.sync_folder(each)


def parse_folder(name: str) -> TopicPartition | None:
    """Return the partition of a folder name, None for any other name."""
    found = _PARTITION_FOLDER.fullmatch(name)
    if found is None or name.endswith((DELETE_SUFFIX, STRAY_SUFFIX)):
        return None
    return TopicPartition(TopicName(found["topic"]), PartitionIndex(int(found["index"])))


def suffixed(topic_partition: TopicPartition, unique: UUID, suffix: str) -> str:
    """Return the name of a folder that was set aside; the topic name is shortened if the whole would be too long."""
    tail = f"-{topic_partition.partition}.{unique.hex}{suffix}"
    return topic_partition.topic[: _NAME_SIZE_MAX - len(tail)] + tail


def is_partition_like(name: str) -> bool:
    """Return whether a folder name looks like that of a partition."""
    return _PARTITION_FOLDER.fullmatch(name) is not None


def read_topic_id(disk: Disk, folder: str) -> UUID | None:
    """Return the topic id of a partition folder, None if it has no valid one."""
    try:
        lines = disk.read_file(f"{folder}/{PARTITION_METADATA}").decode().splitlines()
        fields = dict(line.split(": ", 1) for line in lines if line)
        return decode_uuid(fields["topic_id"])
    except (FileNotFoundError, ValueError, KeyError):
        return None


def belongs_to(disk: Disk, folder: str, topic_id: UUID, *, is_known: bool) -> bool:
    """Return whether a partition folder belongs to a topic. `is_known`: the data folder's table has that partition.

    The file with the topic id is synced before the first record is acknowledged. If it never reached the disk, records
    may have reached it nevertheless, including those of a deleted topic with the same name. An invalid file of the full
    size was synced and is corrupt.
    """
    found = read_topic_id(disk, folder)
    if found is not None or is_known:
        return found in (topic_id, None)
    try:
        content = disk.read_file(f"{folder}/{PARTITION_METADATA}")
    except FileNotFoundError:
        return False
    return len(content) == len(_metadata_of(topic_id)) and 0 not in content


def holds_records(disk: Disk, folder: str) -> bool:
    """Return whether any segment in a folder has records, including those set aside or about to be removed."""
    for name in disk.list(folder):
        if ".log" in name or name.endswith(".cut"):
            file = disk.open(f"{folder}/{name}", writable=False)
            size = file.size()
            file.close()
            if size:
                return True
    return False


def write_topic_id(disk: Disk, folder: str, topic_id: UUID) -> None:
    """Write the topic id of a partition folder, without a sync."""
    write_unsynced(disk, f"{folder}/{PARTITION_METADATA}", _metadata_of(topic_id))


def _metadata_of(topic_id: UUID) -> bytes:
    return f"version: 0\ntopic_id: {encode_uuid(topic_id)}".encode()
