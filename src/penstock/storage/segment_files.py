"""The segment files in a partition's folder, as recovery.py finds them. Raises OSError."""

from penstock.config.settings import TopicSettings
from penstock.storage.directory import LogDirectory
from penstock.storage.segment import Segment, file_name

_NAME_DIGITS = 20
_LEFTOVERS = (".deleted", ".tmp", ".cleaned", ".swap")


def find_segments(
    directory: LogDirectory, folder: str, settings: TopicSettings, now_ms: int
) -> tuple[list[Segment], bool]:
    """Return the segments in the folder, oldest first; remove what interrupted operations left, and return if any."""
    disk = directory.disk
    segments: list[Segment] = []
    indexes: list[str] = []
    removed = False
    for name in disk.list(folder):
        stem, dot, suffix = name.partition(".")
        if name.endswith(_LEFTOVERS):
            disk.remove(f"{folder}/{name}")
            removed = True
        elif len(stem) == _NAME_DIGITS and stem.isdecimal() and suffix in ("index", "timeindex", "txnindex"):
            indexes.append(name)
        elif len(stem) == _NAME_DIGITS and stem.isdecimal() and dot + suffix == ".log":
            segments.append(open_segment(directory, folder, int(stem), settings, now_ms))
    names = {file_name(each.base_offset, "") for each in segments}
    for name in indexes:
        if name.partition(".")[0] not in names:
            disk.remove(f"{folder}/{name}")
            removed = True
    return segments, removed


def open_segment(
    directory: LogDirectory,
    folder: str,
    base_offset: int,
    settings: TopicSettings,
    now_ms: int,
    *,
    create: bool = False,
) -> Segment:
    """Return the segment in a file, which is created if `create` is set. Raises OSError."""
    path = f"{folder}/{file_name(base_offset, '.log')}"
    file = directory.disk.open(path, create=create, writable=create)
    size = file.size()
    file.close()
    return Segment(
        directory,
        folder,
        base_offset,
        size=size,
        index_interval=settings.index_interval_bytes,
        index_size_max=settings.segment_index_bytes,
        created_ms=now_ms,
    )
