"""The opening of a node's metadata folder: log, newest checkpoint, epoch and vote, voters.

Called by `quorum.py` once. Calls `storage/log.py`, `checkpointer.py` and `quorum_state.py`.
Refuses damage: Corruption, StorageError.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from random import Random
from uuid import UUID

from penstock.config.listeners import PLAINTEXT, listener_config, listener_names
from penstock.config.settings import BrokerSettings, TopicSettings, default_topic_settings
from penstock.metadata import control, quorum_state
from penstock.metadata.checkpointer import load_newest
from penstock.metadata.replay import batches_between
from penstock.metadata.snapshot import Snapshot, end_of
from penstock.metadata.voters import VoterRegistry, configured_voters, ids_of
from penstock.model.errors import Corruption, StorageError
from penstock.model.ids import LeaderEpoch, NodeId, Offset, PartitionIndex, TopicId, TopicPartition
from penstock.model.job import finish
from penstock.model.topic import CLUSTER_METADATA
from penstock.ports.clock import Clock
from penstock.ports.disk import Disk
from penstock.raft.core import Core
from penstock.raft.events import ElectionState
from penstock.raft.shape import NO_RECORDS, LogShape
from penstock.raft.state import Timing
from penstock.raft.voters import VoterHistory
from penstock.storage.directory import LogDirectory
from penstock.storage.log import Log
from penstock.storage.log_checkpoints import LogCheckpoints
from penstock.wire.batch import BatchHeader
from penstock.wire.records import decode_batch

METADATA_PARTITION = TopicPartition(CLUSTER_METADATA, PartitionIndex(0))
METADATA_TOPIC_ID = TopicId(UUID(int=1))
_BATCH_BYTES_MAX = 64 << 20
"""Far larger than any commit, which is always a single batch."""

logger = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class Opened:
    log: Log
    newest: Snapshot | None
    core: Core
    voter_registry: VoterRegistry


def open_metadata(
    disk: Disk,
    clock: Clock,
    random: Random,
    data_folder: str,
    settings: BrokerSettings,
    directory: LogDirectory | None,
    *,
    node_id: NodeId,
    directory_id: UUID,
) -> Opened:
    """Read the folder, and create the core that continues from it."""
    folder = f"{data_folder}/{METADATA_PARTITION}"
    log = _open_log(disk, clock, folder, settings, directory)
    newest = load_newest(disk, folder, log_start=log.start_offset)
    voter_registry = VoterRegistry(configured_voters(settings, node_id), prefers_hints=not _is_secured(settings))
    voter_registry.note_directory(node_id, directory_id)
    shape = _shape_of(log, newest)
    history = _read_voters(log, newest, shape, voter_registry)
    core = Core(
        node_id=node_id,
        voters=history,
        election=_read_election(disk, log.folder, shape, is_alone=history.current == {node_id}),
        log=shape,
        random=random,
        timing=_timing(settings),
        disk=directory_id,
    )
    return Opened(log=log, newest=newest, core=core, voter_registry=voter_registry)


def _open_log(disk: Disk, clock: Clock, folder: str, settings: BrokerSettings, directory: LogDirectory | None) -> Log:
    is_new = not disk.exists(folder)
    disk.make_folder(folder)
    if is_new:
        disk.sync_folder(folder.rpartition("/")[0])
    opening = Log.opening(
        directory or LogDirectory(disk, folder.rpartition("/")[0]),
        folder,
        METADATA_PARTITION,
        METADATA_TOPIC_ID,
        _log_settings(settings),
        clock_wall_ms=clock.wall_ms,
        # The log is short and must not be corrupt, so it is verified completely at every start.
        clean=False,
    )
    log = finish(opening)
    if log.damage is not None:
        raise StorageError(
            f"{log.damage}. Restore the missing files, or, if other voters have the metadata, delete {folder}: "
            "the node then fetches it from them"
        )
    log.use_checkpoints(LogCheckpoints(when_start_saved=partial(_save_start, log)))
    log.quarantine.use_reserve()
    return log


def _save_start(log: Log, done: Callable[[OSError | None], None]) -> None:
    """Write the start of the log to the segment list, as no other file contains it."""
    first = log.segments.bases[log.segments.slot_of(log.start_offset)]
    disk, is_listed = log.directory.disk, log.segment_list.exists
    try:
        changed = log.segment_list.add_start(first)
        if not is_listed:
            disk.sync_folder(log.folder)
        disk.sync_later(changed, done)
    except OSError as error:
        done(error)


def _log_settings(settings: BrokerSettings) -> TopicSettings:
    return default_topic_settings(
        segment_bytes=max(settings.integer("metadata.log.segment.bytes"), _BATCH_BYTES_MAX),
        segment_ms=settings.integer("metadata.log.segment.ms"),
        max_message_bytes=_BATCH_BYTES_MAX,
        # Committed metadata is durable, whatever the broker's topics use, on a single-node quorum too.
        flush_mode="fsync",
        retention_ms=-1,
        retention_bytes=-1,
        file_delete_delay_ms=0,
    )


def _timing(settings: BrokerSettings) -> Timing:
    def seconds(name: str) -> float:
        return settings.integer(f"controller.quorum.{name}.ms") / 1000

    fetch_timeout = seconds("fetch.timeout")
    return Timing(
        election_timeout=seconds("election.timeout"),
        election_backoff_max=seconds("election.backoff.max"),
        fetch_timeout=fetch_timeout,
        fetch_wait=min(0.5, fetch_timeout / 4),
        request_timeout=seconds("request.timeout"),
        retry_backoff=seconds("retry.backoff"),
    )


def _shape_of(log: Log, newest: Snapshot | None) -> LogShape:
    snapshot = NO_RECORDS if newest is None else end_of(newest.image)
    if snapshot.end_offset > log.end_offset:
        logger.warning("%s ends before its newest checkpoint and restarts after it", log.folder)
        log.truncate_fully_and_start_at(snapshot.end_offset)
    shape = LogShape(snapshot=snapshot)
    epochs = [(epoch, max(start, snapshot.end_offset)) for epoch, start in log.epochs.entries()]
    for (epoch, start), (_, end) in pairwise([*epochs, (None, log.end_offset)]):
        if end > start and epoch is not None:
            shape.append(last_offset=Offset(end - 1), epoch=LeaderEpoch(epoch))
    if shape.end_offset != log.end_offset:
        raise Corruption(f"{log.folder} ends at {log.end_offset}, but its epochs end at {shape.end_offset}")
    shape.durable_offset = shape.end_offset
    return shape


def _read_voters(log: Log, newest: Snapshot | None, shape: LogShape, voter_registry: VoterRegistry) -> VoterHistory:
    if newest is not None:
        voter_registry.replaced(newest.voters)
    history = VoterHistory(
        ids_of(voter_registry.present) if voter_registry.is_named else frozenset(voter_registry.configured)
    )
    for view in batches_between(log, shape.start_offset, shape.end_offset):
        header = BatchHeader.at(view)
        voters = control.voters_in(decode_batch(view)) if header.is_control else None
        if voters is not None:
            voter_registry.append(Offset(header.last_offset), voters)
            history.append(Offset(header.last_offset), ids_of(voters))
    return history


def _read_election(disk: Disk, folder: str, shape: LogShape, *, is_alone: bool) -> ElectionState:
    """Return the persisted election state; a sole voter without it can use the log's last epoch."""
    try:
        election = quorum_state.read(disk, folder)
    except Corruption as problem:
        if not is_alone:
            raise
        logger.error("cannot read the election state, using the epoch of the log: %s", problem)
        election = None
    if election is None:
        # A voter with a log but without its election state may have voted for anyone, so it counts as blank.
        return ElectionState(epoch=shape.last_epoch, blank=not is_alone)
    if election.epoch < shape.last_epoch:
        return ElectionState(epoch=shape.last_epoch, blank=election.blank)
    return election


def _is_secured(settings: BrokerSettings) -> bool:
    """Return whether any listener uses TLS or SASL."""
    return any(listener_config(settings, name).protocol != PLAINTEXT for name in listener_names(settings))
