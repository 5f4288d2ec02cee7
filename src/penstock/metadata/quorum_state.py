"""The `quorum-state` file: epoch, vote and leader in Kafka's JSON, replaced atomically and durably.

`blank` is a Penstock extension: a voter that does not have everything that a leader had committed.
Written by `quorum.py` before any message that depends on it. Refuses a file with other
content: Corruption.
"""

import json
from uuid import UUID

from penstock.model.errors import Corruption
from penstock.model.ids import NO_NODE, LeaderEpoch, NodeId
from penstock.ports.disk import Disk
from penstock.raft.events import ElectionState
from penstock.storage.meta_properties import encode_uuid
from penstock.wire.fields import ZERO_UUID

FILE_NAME = "quorum-state"
_DATA_VERSION = 1


def write(disk: Disk, folder: str, election: ElectionState, *, directories: dict[NodeId, UUID]) -> None:
    """Write the state durably; `directories` has the directory ids of voters, as far as they are known."""
    voted_directory = ZERO_UUID if election.voted is None else directories.get(election.voted, ZERO_UUID)
    content = {
        "leaderId": NO_NODE if election.leader is None else election.leader,
        "leaderEpoch": election.epoch,
        "votedId": NO_NODE if election.voted is None else election.voted,
        "votedDirectoryId": encode_uuid(voted_directory),
        "data_version": _DATA_VERSION,
    }
    if election.blank:
        content["blank"] = True
    disk.replace_file(f"{folder}/{FILE_NAME}", json.dumps(content, separators=(",", ":")).encode())


def read(disk: Disk, folder: str) -> ElectionState | None:
    """Return the state, or None if the node has none yet."""
    path = f"{folder}/{FILE_NAME}"
    if not disk.exists(path):
        return None
    try:
        content = json.loads(disk.read_file(path))
        epoch, leader, voted = int(content["leaderEpoch"]), int(content["leaderId"]), int(content["votedId"])
        version = int(content["data_version"])
        blank = bool(content.get("blank", False))
    except (ValueError, KeyError, TypeError) as problem:
        raise Corruption(f"{path} is not a valid quorum state: {problem}") from problem
    if version > _DATA_VERSION or epoch < 0:
        raise Corruption(f"{path} has version {version} and epoch {epoch}, which this release does not support")
    return ElectionState(
        epoch=LeaderEpoch(epoch),
        leader=None if leader < 0 else NodeId(leader),
        voted=None if voted < 0 else NodeId(voted),
        blank=blank,
    )
