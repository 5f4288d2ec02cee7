"""The folders of a data folder: their names, and the topic id in each (`partition.metadata`). Raises OSError."""

import re
from typing import Final
from uuid import UUID

from penstock.model.ids import PartitionIndex, TopicName, TopicPartition
from penstock.ports.disk import Disk
from penstock.storage.meta_properties import decode_uuid, encode_uuid

PARTITION_METADATA: Final = "partition.metadata"
DELETE_SUFFIX: Final = "-delete"
STRAY_SUFFIX: Final = "-stray"
DAMAGED_SUFFIX: Final = "-damaged"
# The cluster's own log, which the quorum opens for itself.
METADATA_FOLDER: Final = "__cluster_metadata-0"
_NAME_SIZE_MAX: Final = 255
_PARTITION_FOLDER: Final = re.compile(r"(?P<topic>[A-Za-z0-9._-]{1,249})-(?P<index>\d{1,10})")


def make_data_folder(disk: Disk, folder: str) -> None:
    """Make the data folder so that its name, and those of the folders above it, survive a power loss."""
    path, changed = folder, list[str]()
    while path and not disk.exists(path):
        path = path.rpartition("/")[0]
        changed.append(path or "/")
    disk.make_folder(folder)
    for each in changed:
        disk.sync_folder(each)


def parse_folder(name: str) -> TopicPartition | None:
    """Return the partition that a folder is named after, None for any other name."""
    found = _PARTITION_FOLDER.fullmatch(name)
    if found is None or name.endswith((DELETE_SUFFIX, STRAY_SUFFIX)):
        return None
    return TopicPartition(TopicName(found["topic"]), PartitionIndex(int(found["index"])))


def suffixed(topic_partition: TopicPartition, unique: UUID, suffix: str) -> str:
    """Name a folder that is no longer a partition's. The topic's name gives way where the whole would be too long."""
    tail = f"-{topic_partition.partition}.{unique.hex}{suffix}"
    return topic_partition.topic[: _NAME_SIZE_MAX - len(tail)] + tail


def is_partition_like(name: str) -> bool:
    """Whether a folder holds a log, of whatever partition."""
    return _PARTITION_FOLDER.fullmatch(name) is not None


def read_topic_id(disk: Disk, folder: str) -> UUID | None:
    """Return the topic id that a partition's folder was made for, None if it does not say."""
    try:
        lines = disk.read_file(f"{folder}/{PARTITION_METADATA}").decode().splitlines()
        fields = dict(line.split(": ", 1) for line in lines if line)
        return decode_uuid(fields["topic_id"])
    except (FileNotFoundError, ValueError, KeyError):
        return None


def belongs_to(disk: Disk, folder: str, topic_id: UUID, *, is_known: bool) -> bool:
    """Say whether a partition's folder was made for a topic; `is_known` if the data folder holds that partition.

    The file with the topic id is synced before the first record is acknowledged. If it never reached the disk, records
    may have all the same, those of a deleted topic with the same name among them. A file of the full size was synced
    and has rotted.
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
    """Say whether any segment in a folder has content, also one that is set aside or about to be removed."""
    for name in disk.list(folder):
        if ".log" in name or name.endswith(".cut"):
            file = disk.open(f"{folder}/{name}", writable=False)
            size = file.size()
            file.close()
            if size:
                return True
    return False


def write_topic_id(disk: Disk, folder: str, topic_id: UUID) -> None:
    """Say whose partition a folder is, without a sync."""
    content = _metadata_of(topic_id)
    file = disk.open(f"{folder}/{PARTITION_METADATA}", create=True)
    file.write((content,), 0)
    file.truncate(len(content))
    file.close()


def _metadata_of(topic_id: UUID) -> bytes:
    return f"version: 0\ntopic_id: {encode_uuid(topic_id)}".encode()
