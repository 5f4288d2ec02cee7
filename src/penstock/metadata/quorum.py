"""The driver of the metadata quorum: carries out the core's effects and passes events to it.

`commit`, on the active controller only, writes one batch, steps the core, and returns when the batch is committed,
applied and published. The other nodes replay committed records from the log. Calls `raft/core.py`, `storage/log.py`,
`messenger.py` and `applier.py`. Refuses: NotController if this node does not lead, StartupError, StorageError if the
disk fails: a failed write fails one commit and lets another voter lead, a failed sync fails all that follow.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from random import Random
from uuid import UUID

from penstock.client.peers import Peers
from penstock.client.waiting import at_most, retrieve_exception
from penstock.config.settings import BrokerSettings
from penstock.metadata.applier import Applier, Pending
from penstock.metadata.change import MetadataChange, prepare
from penstock.metadata.delta import apply
from penstock.metadata.identity import NodeIdentity
from penstock.metadata.image import EMPTY, Image
from penstock.metadata.log_writer import MetadataLogWriter
from penstock.metadata.messenger import Messenger
from penstock.metadata.opening import METADATA_PARTITION, METADATA_TOPIC_ID, Opened, open_metadata
from penstock.metadata.publisher import Subscriber
from penstock.metadata.records import MetadataRecord
from penstock.metadata.snapshot import Snapshot, first_records
from penstock.metadata.snapshot_fetch import SnapshotFetch, SnapshotUnavailable
from penstock.metadata.voters import VoterEndpoint, VoterSet, ids_of
from penstock.model.errors import Corruption, NotController, Refusal, StartupError, StorageError
from penstock.model.ids import LeaderEpoch, NodeId, Offset
from penstock.ports.clock import Clock, Timer
from penstock.ports.disk import Disk
from penstock.ports.network import Dialer, FileSlice
from penstock.raft.core import Core
from penstock.raft.events import (
    Appended,
    ChangeVoters,
    Effects,
    Event,
    LogStartMoved,
    Resign,
    SnapshotLoaded,
    SnapshotStatus,
    Started,
    Synced,
    TimePassed,
)
from penstock.raft.messages import EpochEnd
from penstock.storage.directory import LogDirectory

__all__ = ["METADATA_PARTITION", "METADATA_TOPIC_ID", "Quorum"]
LeadershipSubscriber = Callable[[bool, LeaderEpoch], None]
RESIGN_S_MAX = 0.5
"""How long a stopping node waits for the others to receive its resignation."""

logger = logging.getLogger(__name__)


class Quorum:
    """The cluster's metadata, and the only way to change it."""

    def __init__(
        self,
        *,
        clock: Clock,
        opened: Opened,
        identity: NodeIdentity,
        peers: Peers | None,
        settings: BrokerSettings,
        initial_features: Mapping[str, int],
        initial_records: Sequence[MetadataRecord] = (),
    ) -> None:
        self.log = opened.log
        self.voter_registry = opened.voter_registry
        self.peers = peers
        """Connections to the voters, by id."""
        self.identity = identity
        self._clock = clock
        self._core = opened.core
        self._writer = MetadataLogWriter(opened, clock)
        self._settings = settings
        self._initial_features = initial_features
        self._initial_records = initial_records
        self._applier = Applier(
            clock=clock,
            log=opened.log,
            newest=opened.newest,
            voter_registry=opened.voter_registry,
            settings=settings,
            on_dropped=self._log_dropped,
            on_due=lambda: self.step(None),
        )
        self._head = EMPTY
        self._failure: Exception | None = None
        self.on_failure: Callable[[], None] = lambda: None
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._ready.add_done_callback(retrieve_exception)
        self._events: deque[Event | None] = deque()
        self._stepping = False
        self._timer: Timer | None = None
        self._timer_at = float("inf")
        self._leads: LeaderEpoch | None = None
        self._is_active = False
        self._leadership: list[LeadershipSubscriber] = []
        self._loading: asyncio.Task[None] | None = None
        self._closed = False
        self._is_alone = opened.core.voters == {opened.core.node_id}
        self.messenger = Messenger(
            identity=identity,
            peers=peers,
            voter_registry=self.voter_registry,
            core=self._core,
            submit=self.step,
            read=self._read,
            timeout_s=settings.integer("controller.quorum.request.timeout.ms") / 1000,
        )

    @classmethod
    async def open(
        cls,
        *,
        disk: Disk,
        clock: Clock,
        random: Random,
        data_folder: str,
        node_id: NodeId,
        directory_id: UUID,
        settings: BrokerSettings,
        initial_features: Mapping[str, int],
        initial_records: Sequence[MetadataRecord] = (),
        directory: LogDirectory | None = None,
        network: Dialer | None = None,
        cluster_id: str | None = None,
        endpoints: Callable[[], tuple[VoterEndpoint, ...]] = tuple,
    ) -> "Quorum":
        """Open the metadata and join the quorum. A single-node quorum has a leader when this returns.

        With other nodes, `ready` waits for the first image. Without a `network` there are none. A `directory`
        that is passed in is shared: its other failure callbacks are still called.
        """
        try:
            opened = open_metadata(
                disk, clock, random, data_folder, settings, directory, node_id=node_id, directory_id=directory_id
            )
            identity = NodeIdentity(
                cluster_id=cluster_id,
                node_id=node_id,
                directory_id=directory_id,
                endpoints=endpoints,
                fetch_bytes_max=settings.integer("controller.quorum.fetch.max.bytes"),
                fetch_wait_ms=500,
            )
            peers = None
            if network is not None:
                peers = Peers(
                    network=network,
                    clock=clock,
                    random=random,
                    address_of=opened.voter_registry.address_of,
                    client_id=f"node-{node_id}",
                )
            quorum = cls(
                clock=clock,
                opened=opened,
                identity=identity,
                peers=peers,
                settings=settings,
                initial_features=initial_features,
                initial_records=initial_records,
            )
            quorum._watch(opened.log.directory)
            opened.log.flusher.notify_durable(quorum)
            quorum.step(Started())
            if quorum.is_alone:
                await quorum.ready()
        except (OSError, Refusal, Corruption) as problem:
            raise StartupError(f"Cannot open the metadata in {data_folder}: {problem}") from problem
        return quorum

    # -- queries -----------------------------------------------------------------------------

    @property
    def image(self) -> Image:
        """Return the image of everything committed and applied."""
        return self._applier.image

    @property
    def node_id(self) -> NodeId:
        return self._core.node_id

    @property
    def leader(self) -> NodeId | None:
        """Return the leader of the quorum, if known; it is the active controller when it has caught up."""
        return self._core.advertised_leader

    @property
    def epoch(self) -> LeaderEpoch:
        return self._core.epoch

    @property
    def high_watermark(self) -> Offset:
        return self._core.high_watermark

    @property
    def is_active(self) -> bool:
        """Return whether this node is the active controller: it leads, and has applied all earlier commits."""
        return self._is_active

    @property
    def is_alone(self) -> bool:
        """Return whether this node was the only voter when it started, and so leads from the start."""
        return self._is_alone

    @property
    def is_voter(self) -> bool:
        return self._core.is_voter

    @property
    def core(self) -> Core:
        """Return the core, for reading only."""
        return self._core

    async def ready(self) -> None:
        """Wait until the first image is published on this node."""
        await asyncio.shield(self._ready)

    def subscribe(self, subscriber: Subscriber) -> None:
        """Notify the subscriber of the current image, then of every change, after earlier subscribers."""
        self._applier.publisher.subscribe(subscriber)

    def on_leadership(self, subscriber: LeadershipSubscriber) -> None:
        """Notify the subscriber when this node becomes or stops being the active controller; now, if it is."""
        self._leadership.append(subscriber)
        if self._is_active:
            subscriber(True, self._core.epoch)

    # -- changing the metadata -------------------------------------------------------------

    async def commit(self, *parts: Sequence[MetadataRecord]) -> None:
        """Commit records and return when they are applied and published; a crash leaves all of them or none.

        Of several parts, it may leave the first ones. Records are applied to the image first, so that nothing is
        written that could not be replayed. After they were written, NotController means that the next leader may keep
        them or not.
        """
        check = partial(self._refuse_unless_active, self._core.epoch)
        check()
        written: list[asyncio.Future[None]] = []
        try:
            for records in parts:
                if written:
                    await asyncio.sleep(0)
                    check()
                written.append(self._write(await prepare(lambda: self._head, records, check)))
        except Exception:
            # The next decision must be made on an image with the parts that were written.
            await asyncio.gather(*written, return_exceptions=True)
            raise
        await asyncio.gather(*written)

    def _refuse_unless_active(self, epoch: LeaderEpoch) -> None:
        self._refuse_if_failed()
        if not self._is_active or self._core.epoch != epoch:
            raise NotController

    def _write(self, change: MetadataChange) -> "asyncio.Future[None]":
        assert change.records, "a commit needs records"
        timestamp = self._clock.wall_ms()
        base_offset, epoch = self._core.log.end_offset, self._core.epoch
        last_offset = Offset(base_offset + len(change.records) - 1)
        delta, image = change.build(offset=last_offset, epoch=epoch)
        try:
            size = self._writer.append_records(change.records, timestamp=timestamp)
        except StorageError:
            if self._core.voters != {self.node_id}:
                self.step(Resign())  # a voter that can write must lead
            raise
        self._refuse_if_failed()
        self._head = image
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        done.add_done_callback(retrieve_exception)
        self._applier.pending.append(Pending(last_offset, delta, image, timestamp, size, done))
        self.step(Appended(last_offset))
        return done

    async def change_voters(self, voters: VoterSet) -> None:
        """Return when another set of voters is committed. Requires `Core.may_change_voters`."""
        self._refuse_if_failed()
        if not self._is_active or not self._core.may_change_voters:
            raise NotController
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        count = 1 if self.voter_registry.is_named else 2
        last_offset = Offset(self._core.log.end_offset + count - 1)
        delta, self._head = apply(self._head, (), offset=last_offset, epoch=self._core.epoch)
        self._applier.pending.append(Pending(last_offset, delta, self._head, self._clock.wall_ms(), 0, done))
        self.step(ChangeVoters(ids_of(voters), voters, count))
        await done

    # -- the core --------------------------------------------------------------------------

    def step(self, event: Event | None) -> None:
        """Submit an event to the core, or None to apply more of what is committed. Meanwhile, events are queued."""
        self._events.append(event)
        if self._stepping:
            return
        self._stepping = True
        try:
            while self._events and self._failure is None and not self._closed:
                next_event = self._events.popleft()
                if next_event is None:
                    self._applier.resume()
                    self._note_ready()
                    self._note_leadership()
                else:
                    self._carry_out(self._core.step(next_event, self._clock.monotonic()))
                if not self._events:
                    self.advance()
        except (OSError, Refusal, Corruption) as problem:
            # The core assumes that its effects were carried out, so its state is wrong from here on.
            self.fail(problem)
        except AssertionError as bug:
            self.fail(bug)
            raise
        finally:
            self._stepping = False

    def _carry_out(self, effects: Effects) -> None:
        """Carry out the effects in the order that `raft/events.py` requires."""
        if effects.persist is not None:
            self._writer.persist(effects.persist)
        if effects.truncate_to is not None:
            self._writer.truncate_to(effects.truncate_to)
        if effects.append:
            self._writer.append_batches(effects.append)
        for send in effects.send:
            self.messenger.send(send)
        if effects.high_watermark is not None:
            self._applier.apply(effects.high_watermark)
            self._note_ready()
        self._note_leadership()
        self._set_timer(effects.deadline)
        if self._core.loading_snapshot is not None and self._loading is None:
            self._loading = asyncio.get_running_loop().create_task(self._load_snapshot(self._core.loading_snapshot))

    def advance(self) -> None:
        # A sync may complete before the core knows the records; it is reported when it does.
        end = min(Offset(self.log.durable_offset), self._core.log.end_offset)
        if end > self._core.log.durable_offset:
            self.step(Synced(end))

    def _read(self, offset: int) -> FileSlice | None:
        return self.log.read(offset, max_bytes=self.identity.fetch_bytes_max, end=self.log.end_offset)

    def _set_timer(self, deadline: float | None) -> None:
        """Keep one timer for the earliest deadline; a timer that fires too early is harmless."""
        if deadline is None or deadline >= self._timer_at:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = deadline
        self._timer = self._clock.call_later(max(0.0, deadline - self._clock.monotonic()), self._timer_fired)

    def _timer_fired(self) -> None:
        self._timer, self._timer_at = None, float("inf")
        self.step(TimePassed())

    # -- applying --------------------------------------------------------------------------

    def _note_ready(self) -> None:
        image = self.image
        if image is not EMPTY and not self._ready.done() and (image.features or not self._initial_features):
            self._ready.set_result(None)

    def _log_dropped(self, end: EpochEnd) -> None:
        self.voter_registry.start_at(end.end_offset)
        self.step(LogStartMoved(end))

    def _note_leadership(self) -> None:
        """Become the active controller, or stop being it."""
        if self._core.has_committed and self._leads != self._core.epoch:
            self._applier.finish()
            self._leads, self._head = self._core.epoch, self.image
            if self._initial_features and not self.image.features:
                change = MetadataChange(self._head)
                change.add([*first_records(self._initial_features), *self._initial_records])
                self._write(change)
        elif not self._core.is_leader and self._leads is not None:
            self._leads = None
        if not self._core.is_leader:
            self.messenger.refuse_fetches()
        is_active = self._leads is not None and bool(self.image.features or not self._initial_features)
        if is_active != self._is_active:
            self._publish_leadership(is_active)
        if self._leads is None:
            self._applier.fail_pending(NotController())

    def _publish_leadership(self, is_active: bool) -> None:
        self._is_active = is_active
        state = "is" if is_active else "is no longer"
        logger.info("node %d %s the active controller, epoch %d", self.node_id, state, self.epoch)
        for subscriber in self._leadership:
            subscriber(is_active, self._core.epoch)

    # -- a leader's snapshot ---------------------------------------------------------------

    async def _load_snapshot(self, end: EpochEnd) -> None:
        core, leader = self._core, self._core.leader
        assert self.peers is not None and leader is not None, "a snapshot is loaded from a leader"
        fetch = SnapshotFetch(
            identity=self.identity,
            peers=self.peers,
            clock=self._clock,
            piece_bytes_max=self._settings.integer("controller.quorum.fetch.snapshot.max.bytes"),
            timeout_s=self._settings.integer("controller.quorum.request.timeout.ms") / 1000,
        )
        try:
            found = await fetch.load(
                end,
                leader,
                core.epoch,
                is_needed=lambda: core.loading_snapshot == end and not self._closed,
                on_piece=lambda: self.step(SnapshotStatus(end, True)),
            )
        except SnapshotUnavailable:
            self._loading = None
            self.step(SnapshotStatus(end, False))
            return
        self._loading = None
        if found is not None and core.loading_snapshot == end and self._failure is None:
            self._replace_log(end, *found)

    def _replace_log(self, end: EpochEnd, snapshot: Snapshot, content: bytes) -> None:
        try:
            self._writer.replace(end, snapshot.voters, content)
        except (OSError, Refusal) as problem:
            self.fail(problem)
            return
        self._applier.replace(snapshot)
        self._note_ready()
        self.step(SnapshotLoaded(end, None if snapshot.voters is None else ids_of(snapshot.voters)))

    # -- closing ---------------------------------------------------------------------------

    def fail(self, error: Exception) -> None:
        """Take the metadata log offline after a disk failure: fail pending and future commits."""
        if self._failure is None and self._ready.done():
            logger.critical("the metadata log of node %d is offline: %r", self.node_id, error)
            self.on_failure()
        self._failure = self._failure or error
        refusal = StorageError(f"the metadata log is offline: {error}")
        self._applier.fail_pending(refusal)
        if not self._ready.done():
            self._ready.set_exception(refusal)
        self._leads = None
        if self._is_active:
            self._publish_leadership(False)
        self.messenger.close()

    async def close(self) -> None:
        """Resign if this node leads, wait for pending commits without notifying subscribers, and close the log."""
        self._applier.close()
        if self.peers is not None and self._core.voters != {self.node_id}:
            if self._core.is_leader and self._failure is None:
                self.step(Resign())
                await at_most(self._clock, RESIGN_S_MAX, self.messenger.sent())
        else:
            await asyncio.gather(*(pending.done for pending in self._applier.pending), return_exceptions=True)
        self.abandon()
        self.log.close()

    def abandon(self) -> None:
        """Stop immediately, like a crash. A commit that is still in preparation must not write to the closed log."""
        self._closed, self._is_active = True, False
        self.log.flusher.notify_durable(None)
        self._applier.stop()
        if self._timer is not None:
            self._timer.cancel()
        if self._loading is not None:
            self._loading.cancel()
        self._applier.fail_pending(NotController())
        self.messenger.close()
        if self.peers is not None:
            self.peers.close()

    def _watch(self, directory: LogDirectory) -> None:
        others = directory.on_failure

        def failed(error: OSError) -> None:
            self.fail(error)
            others(error)

        directory.on_failure = failed

    def _refuse_if_failed(self) -> None:
        if self._failure is not None:
            raise StorageError(f"the metadata log is offline: {self._failure}")
