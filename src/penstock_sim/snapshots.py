"""Comparison of nodes' derived state with their logs.

Invariant 21: epochs, producers, open transactions and indexes are a pure function of the batches.
"""

from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress

from penstock.model.errors import Refusal
from penstock.storage import producer_snapshots
from penstock.storage.epoch_cache import EpochCache
from penstock.storage.log import Log
from penstock.storage.producer_state import ProducerState
from penstock.storage.scan import BadBatch
from penstock.storage.segment import Damaged
from penstock.wire.batch import BatchHeader, iter_batches
from penstock_sim.host import Host


def check_derived_state(hosts: Sequence[Host], rotten: Collection[str]) -> list[str]:
    """Return the derived state that does not follow from the logs. Damage that no node has detected yet is skipped."""
    found: list[str] = []
    for host, log in _logs(hosts):
        if log.damage is None and log.directory.failure is None and str(log.topic_partition) not in rotten:
            with suppress(Refusal, BadBatch, Damaged, OSError):
                found += [f"inv_21: {host.name} {log.topic_partition}: {each}" for each in _compare(log)]
    return found


def _logs(hosts: Sequence[Host]) -> Iterator[tuple[Host, Log]]:
    for host in hosts:
        if host.is_up and host.node is not None:
            for log in host.node.context.store:
                yield host, log


def _compare(log: Log) -> Iterator[str]:
    headers: list[BatchHeader] = []
    for segment in log.segments:
        position = 0
        for view in iter_batches(segment.file.read(segment.size, 0)):
            header = BatchHeader.at(view)
            headers.append(header)
            found = segment.find(header.base_offset)
            if found != position:
                yield f"offset {header.base_offset} is at {position}, but the index leads to {found}"
            position += len(view)
    epochs = EpochCache(log.directory.disk, "/nowhere")
    for header in headers:
        epochs.assign(header.leader_epoch, header.base_offset)
    epochs.truncate_start(log.start_offset)
    # An epoch without records is recorded, too.
    if _before(log.epochs.entries(), log.end_offset) != _before(epochs.entries(), log.end_offset):
        yield f"epochs are {log.epochs.entries()}, but the log says {epochs.entries()}"
    if headers and headers[0].base_offset == 0 and log.start_offset == 0:
        replayed = ProducerState()
        producer_snapshots.replay(log.segments, replayed, 0, log.end_offset, 0)
        # Compaction keeps a producer's last batch or marker, with its sequence and epoch.
        width = 2 if log.settings.compact else None
        held, replayed_producers = _producers(log.producer_state, width), _producers(replayed, width)
        if held != replayed_producers:
            yield f"producers are {held}, but the log says {replayed_producers}"
        if log.producer_state.open_transactions != replayed.open_transactions:
            yield (
                f"open transactions are {log.producer_state.open_transactions}, "
                f"but the log says {replayed.open_transactions}"
            )


def _producers(state: ProducerState, width: int | None) -> dict[int, tuple[object, ...]]:
    return {
        each.producer_id: (
            each.epoch,
            each.next_sequence,
            tuple(each.batches),
            each.coordinator_epoch,
            each.txn_first_offset,
        )[:width]
        for each in state
    }


def _before(entries: list[tuple[int, int]], offset: int) -> list[tuple[int, int]]:
    return [entry for entry in entries if entry[1] < offset]
