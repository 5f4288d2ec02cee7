"""`meta.properties`: the cluster and node that a data folder belongs to, in Kafka's format (version 1).

Refuses (StartupError) a folder of another cluster or node, and a folder with logs but without this file.
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from penstock.model.errors import Corruption, StartupError
from penstock.ports.disk import Disk
from penstock.ports.entropy import Entropy

FILE_NAME: Final = "meta.properties"
VERSION: Final = "1"


@dataclass(frozen=True, slots=True)
class MetaProperties:
    cluster_id: str
    node_id: int
    directory_id: UUID


def encode_uuid(value: UUID) -> str:
    """Encode an id like Kafka, in 22 characters of base64."""
    return urlsafe_b64encode(value.bytes).rstrip(b"=").decode()


def decode_uuid(text: str) -> UUID:
    """Decode an id in Kafka's format; raise ValueError for anything else."""
    return UUID(bytes=urlsafe_b64decode(text + "=="))


def parse_properties(content: bytes) -> dict[str, str]:
    lines = (line.strip() for line in content.decode(errors="replace").splitlines())
    pairs = (line.partition("=") for line in lines if line and not line.startswith("#"))
    return {name.strip(): value.strip() for name, _, value in pairs}


def read_meta(disk: Disk, folder: str) -> MetaProperties | None:
    """Read the file; return None if it is missing, raise Corruption if it is invalid."""
    path = f"{folder}/{FILE_NAME}"
    try:
        content = disk.read_file(path)
    except FileNotFoundError:
        return None
    found = parse_properties(content)
    try:
        if found["version"] != VERSION:
            raise ValueError
        return MetaProperties(found["cluster.id"], int(found["node.id"]), decode_uuid(found["directory.id"]))
    except (KeyError, ValueError):
        raise Corruption(f"{path} cannot be read: it needs version=1, cluster.id, node.id and directory.id") from None


def write_meta(disk: Disk, folder: str, meta: MetaProperties) -> None:
    lines = [
        "#",
        f"cluster.id={meta.cluster_id}",
        f"directory.id={encode_uuid(meta.directory_id)}",
        f"node.id={meta.node_id}",
        f"version={VERSION}",
        "",
    ]
    disk.replace_file(f"{folder}/{FILE_NAME}", "\n".join(lines).encode())


def claim_folder(
    disk: Disk, folder: str, *, cluster_id: str | None, node_id: int, entropy: Entropy, in_use: bool
) -> MetaProperties:
    """Return the properties of a folder; write those of this node if it is new. `in_use`: it already contains logs."""
    try:
        meta = read_meta(disk, folder)
    except Corruption as problem:
        raise StartupError(str(problem)) from None
    if meta is None:
        if in_use:
            raise StartupError(f"{folder} holds logs but no {FILE_NAME}: restore that file, or choose an empty folder")
        meta = MetaProperties(cluster_id or encode_uuid(entropy.uuid()), node_id, entropy.uuid())
        write_meta(disk, folder, meta)
        return meta
    if meta.node_id != node_id:
        raise StartupError(
            f"{folder} belongs to node {meta.node_id}, this is node {node_id}: choose another folder or node id"
        )
    if cluster_id is not None and meta.cluster_id != cluster_id:
        raise StartupError(
            f"{folder} belongs to cluster {meta.cluster_id}, not {cluster_id}: choose another folder or cluster id"
        )
    return meta
