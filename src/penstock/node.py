"""The composition root: builds every part of a node, connects them, starts and stops them.

The order of the start is defined only here: the data folder is locked and the ports are bound before any file is
opened; the metadata is read before the logs; the node serves clients after it is registered, so that a client
never sees a half-built cluster. Raises StartupError with one line that says what to do.
"""

import asyncio
import errno
import logging
import sys
from functools import partial
from typing import NamedTuple

from penstock.client.channel import ControllerChannel
from penstock.client.peers import Peers
from penstock.config.settings import BrokerSettings
from penstock.controller.broker_monitor import BrokerMonitor
from penstock.controller.controller import Controller
from penstock.controller.features import INITIAL, OWN_FEATURES
from penstock.handlers.support.cluster_view import controller_listeners, own_voter_endpoints
from penstock.handlers.support.context import Context, Endpoint
from penstock.handlers.support.forwarding import Relay
from penstock.handlers.support.local_requests import answer_locally
from penstock.handlers.support.metadata_views import MetadataViews
from penstock.membership.lifecycle import NOT_REGISTERED, Identity, Lifecycle
from penstock.membership.producer_ids import ProducerIds
from penstock.metadata.delta import Delta
from penstock.metadata.image import BROKER, ConfigResource, Image
from penstock.metadata.quorum import METADATA_PARTITION, Quorum
from penstock.metadata.quorum_reachability import majority_is_gone
from penstock.metrics import declared
from penstock.model.errors import PortInUse, Refusal, StartupError
from penstock.model.ids import NodeId
from penstock.node_security import NodeSecurity, first_credentials
from penstock.node_settings import check_cluster_id, data_folder, network_limits, parse_listener, quota_spans
from penstock.ports.child import Children
from penstock.ports.clock import Clock, Timer
from penstock.ports.disk import Disk
from penstock.ports.documents import Documents
from penstock.ports.entropy import Entropy
from penstock.ports.instruments import Instruments
from penstock.ports.network import Network, TlsError
from penstock.ports.offload import Offload
from penstock.quotas.throttle import Throttle
from penstock.replication.cluster_peers import PeerAccess
from penstock.replication.replicas import Replicas
from penstock.scheduling.scheduler import Scheduler
from penstock.server.dispatch import Dispatcher
from penstock.server.listener import Admission, Server
from penstock.server.monitoring import Monitoring
from penstock.share_wiring import build_groups
from penstock.storage.compaction.child_worker import ChildWorker
from penstock.storage.compaction.cleaner import Cleaner
from penstock.storage.compaction.inline import InlineWorker
from penstock.storage.janitor import Janitor
from penstock.storage.store import LogStore
from penstock.transactions.coordinator_client import TransactionCoordinators
from penstock.transactions.marker_sender import MarkerSender
from penstock.transactions.marker_writer import MarkerWriter
from penstock.transactions.service import Transactions

log = logging.getLogger(__name__)

# A sync thread that finishes needs the interpreter soon: a client waits for the result.
SWITCH_INTERVAL_S = 0.0005
LOG_AGAIN_S = 10.0
PROBE_S_MAX = 0.5
"""How long a stopping node waits to learn whether another voter is still alive."""


class _ClusterServices(NamedTuple):
    """The services that send requests to other nodes."""

    peers: Peers
    channel: ControllerChannel
    lifecycle: Lifecycle
    replicas: Replicas


class Node:
    def __init__(
        self,
        settings: BrokerSettings,
        *,
        clock: Clock,
        entropy: Entropy,
        disk: Disk,
        network: Network,
        children: Children | None = None,
        offload: Offload | None = None,
        instruments: Instruments | None = None,
        documents: Documents | None = None,
    ) -> None:
        """Create a node; `start` opens it.

        Without `children` or `offload`, the work that they would do runs on the event loop, in slices.
        Without `instruments` there is no endpoint for metrics, without `documents` there is no OAUTHBEARER.
        """
        self.settings = settings
        self.node_id = NodeId(settings.integer("node.id"))
        self._clock, self._entropy = clock, entropy
        self._disk, self._network = disk, network
        self._monitoring = Monitoring(clock, instruments)
        self.metrics = self._monitoring.metrics
        self._throttle = Throttle(clock, lambda: quota_spans(self.settings), self._monitoring.record_throttle_time)
        self._admission = Admission(clock, lambda: self.settings, self.metrics)
        self._server = Server(network, self._admission, self._throttle, clock)
        self._security = NodeSecurity(
            settings,
            network=network,
            clock=clock,
            random=entropy.stream("security"),
            client_id=f"penstock-node-{self.node_id}",
            documents=documents,
            offload=offload,
        )
        self._endpoints: list[Endpoint] = []
        self._context: Context | None = None
        self.broken = asyncio.Event()
        """Set when this node can no longer be part of its cluster; only a new process can."""
        self._janitor: Janitor | None = None
        self._peers: Peers | None = None
        self._lifecycle: Lifecycle | None = None
        self._children = children
        self._scheduler = Scheduler(clock, offload)
        self._cleaner: Cleaner | None = None

    @property
    def bootstrap(self) -> str:
        """Return the address that clients use as bootstrap server."""
        first = self._endpoints[0]
        return f"{first.host}:{first.port}"

    @property
    def is_broker(self) -> bool:
        """Return whether this node holds partitions; a node that is only a controller does not register."""
        return "broker" in self.settings.words("process.roles")

    @property
    def context(self) -> Context:
        """Return the running node's services."""
        assert self._context is not None, "the node is not running"
        return self._context

    async def start(self) -> None:
        """Open everything and serve clients; if that fails, release everything that was opened."""
        sys.setswitchinterval(SWITCH_INTERVAL_S)
        self._network.limit(network_limits(self.settings))
        if self.settings.ignored:
            log.info("these options have no effect in Penstock: %s", ", ".join(self.settings.ignored))
        folder = data_folder(self.settings)
        check_cluster_id(self.settings, self._disk, folder)
        store = LogStore.load(
            self._disk,
            folder,
            cluster_id=self.settings["cluster.id"],
            node_id=self.node_id,
            clock=self._clock,
            entropy=self._entropy,
            journal_size=self.settings["log.journal.bytes"],
            journal_group_least=self.settings["log.journal.min.logs"],
            reserve_size=self.settings["log.reserve.bytes"],
            open_writers_max=self.settings["log.open.files.max"],
        )
        try:
            await self._security.start()
            self._bind()
            await self._monitoring.listen(self.settings["metrics.listener"])
            await self._build(store)
        except BaseException as problem:
            is_built = self._context is not None
            self.abandon()
            await self._monitoring.stop()
            if not is_built:
                store.close(clean=False)
            if isinstance(problem, OSError | Refusal):
                raise StartupError(f"Cannot start with the data in {store.folder}: {problem}") from problem
            raise

    async def _build(self, store: LogStore) -> None:
        self._server.security = self._security.build_listeners(self.metrics, lambda: quorum.image)
        quorum = await self._open_quorum(store)
        services = self._build_cluster_services(store, quorum)
        self._context, marker_sender = self._build_context(store, quorum, services)
        store.on_failure = self._storage_failed
        store.directory.run = lambda job, done: self._scheduler.run(job, done, is_wanted=lambda: True)
        store.on_read_only = services.lifecycle.read_only_changed
        if store.is_read_only:
            services.lifecycle.read_only_changed(True)
        if not quorum.is_alone:
            # In a cluster a failed node should stop: others take over, and a new process may find the disk repaired.
            quorum.on_failure = self.broken.set
        quorum.on_leadership(self._context.monitor.leadership_changed)
        dispatcher = Dispatcher(self._context, self._monitoring.stopwatch, is_held=not quorum.is_alone)
        if not quorum.is_alone:
            # The quorum needs this node before clients may use it.
            self._server.serve(dispatcher)
            await self._wait_for_quorum(quorum)
        await self._join_cluster(self._context, services, marker_sender)
        self._start_retention(self._context)
        self._security.start_audit(self._context, services.peers)
        self._monitoring.begin(self._context, self._admission, dispatcher)
        if quorum.is_alone:
            self._server.serve(dispatcher)
        else:
            dispatcher.open()

    async def _open_quorum(self, store: LogStore) -> Quorum:
        return await Quorum.open(
            disk=self._disk,
            clock=self._clock,
            random=self._entropy.stream("raft"),
            data_folder=store.folder,
            node_id=self.node_id,
            directory_id=store.directory_id,
            settings=self.settings,
            initial_features=INITIAL,
            initial_records=first_credentials(self.settings, self._entropy.stream("security")),
            directory=store.directory,
            network=self._security.controller_dialer(),
            cluster_id=store.cluster_id,
            endpoints=lambda: own_voter_endpoints(self.settings, self._endpoints),
        )

    def _build_cluster_services(self, store: LogStore, quorum: Quorum) -> _ClusterServices:
        """Build the services that send requests to other nodes: registration, replication, and the rest."""
        dialer = self._security.broker_dialer()
        self._peers = peers = Peers(
            network=dialer,
            clock=self._clock,
            random=self._entropy.stream("peers"),
            address_of=self._address_of,
            client_id=f"penstock-node-{self.node_id}",
        )
        channel = ControllerChannel(
            node_id=self.node_id,
            peers=quorum.peers or peers,
            clock=self._clock,
            leader=lambda: quorum.leader,
            local=lambda api_key, request: answer_locally(self.context, api_key, request),
        )
        lifecycle = Lifecycle(
            self._identity(store),
            channel=channel,
            clock=self._clock,
            current_settings=lambda: self.settings,
            seen_offset=lambda: quorum.image.offset,
            quorum_is_gone=lambda: majority_is_gone(
                quorum.peers or peers, quorum.core.voters, own=self.node_id, timeout_s=PROBE_S_MAX
            ),
        )
        replicas = Replicas(
            self.node_id,
            store,
            self._clock,
            lambda: self.settings,
            PeerAccess(
                network=dialer,
                channel=channel,
                broker_epoch=lambda: lifecycle.broker_epoch,
                address_of=self._address_of,
                has_lease=lambda: lifecycle.has_lease() or quorum.core.voters == {self.node_id},
            ),
        )
        return _ClusterServices(peers, channel, lifecycle, replicas)

    def _build_context(
        self, store: LogStore, quorum: Quorum, services: _ClusterServices
    ) -> tuple[Context, MarkerSender]:
        """Build the services that handlers use."""
        peers, channel, lifecycle, replicas = services
        controller = Controller(quorum)
        groups, shares = build_groups(
            lambda: self.context, lambda: self.settings, quorum, replicas, peers, self._clock, self._scheduler
        )
        producer_ids = ProducerIds(channel, self.node_id, lambda: lifecycle.broker_epoch)
        marker_writer = MarkerWriter(replicas=replicas, clock=self._clock, end_offsets=groups.end_transaction)
        marker_sender = MarkerSender(
            node_id=self.node_id, image=lambda: quorum.image, peers=peers, write_here=marker_writer.write
        )
        transactions = Transactions(
            node_id=self.node_id,
            replicas=replicas,
            clock=self._clock,
            current_settings=lambda: self.settings,
            take_producer_id=producer_ids.take,
            write_marker=marker_sender.write,
        )
        context = Context(
            settings=self.settings,
            replicas=replicas,
            controller=controller,
            monitor=BrokerMonitor(
                node_id=self.node_id,
                cluster_id=store.cluster_id,
                controller=controller,
                peers=peers,
                clock=self._clock,
                current_settings=lambda: self.settings,
            ),
            producer_ids=producer_ids,
            quorum=quorum,
            groups=groups,
            transactions=transactions,
            transaction_coordinators=TransactionCoordinators(
                node_id=self.node_id, image=lambda: quorum.image, peers=peers, here=transactions
            ),
            marker_writer=marker_writer,
            shares=shares,
            clock=self._clock,
            entropy=self._entropy,
            disk=self._disk,
            store=store,
            node_id=self.node_id,
            cluster_id=store.cluster_id,
            endpoints=self._endpoints,
            relay=Relay(quorum=quorum, clock=self._clock),
            throttle=self._throttle,
            metrics=self.metrics,
            scheduler=self._scheduler,
            metadata_views=MetadataViews(self._clock.monotonic),
            authorizer=self._security.authorizer,
            token_secrets=self._security.token_secrets,
        )
        return context, marker_sender

    async def _join_cluster(self, context: Context, services: _ClusterServices, marker_sender: MarkerSender) -> None:
        """Follow the metadata, register, and take over the partitions that this node leads."""
        quorum, replicas = context.quorum, services.replicas
        # Settings first, because replicas create their logs with them.
        quorum.subscribe(self._settings_changed)
        quorum.subscribe(self._quotas_changed)
        quorum.subscribe(self._security.acls_changed)
        quorum.subscribe(replicas.image_changed)
        quorum.subscribe(services.lifecycle.image_changed)
        quorum.subscribe(context.metadata_views.image_changed)
        if self.is_broker:
            self._lifecycle = services.lifecycle
            await services.lifecycle.register()
        await replicas.opened_at_start(partial(self._all_logs_open, context.store))
        if self.is_broker:
            # A fenced node is never elected; a log that has lost records must not lead after the node is unfenced.
            await replicas.wait_losses_reported()
            await services.lifecycle.serve()
        # After registration, which begins a new epoch for every partition: coordinators load once, from open logs.
        quorum.subscribe(context.groups.image_changed)
        quorum.subscribe(context.transactions.image_changed)
        quorum.subscribe(context.shares.image_changed)
        quorum.subscribe(marker_sender.image_changed)
        replicas.start()

    def _all_logs_open(self, store: LogStore) -> None:
        store.note_boot()
        for stray in sorted({*store.strays()} - {str(METADATA_PARTITION)}):
            log.warning("ignoring the folder %s/%s: it belongs to no topic of this cluster", store.folder, stray)

    def _start_retention(self, context: Context) -> None:
        """Start the tasks that apply retention."""
        store, replicas = context.store, context.replicas
        self._janitor = Janitor(store, self._clock, lambda: self.settings, replicas.high_watermark)
        self._janitor.start()
        worker = InlineWorker(self._disk, self._clock) if self._children is None else ChildWorker(self._children)
        self._cleaner = Cleaner(store, self._clock, lambda: self.settings, replicas.last_stable_offset, worker)
        self._cleaner.start()
        uncleanable = self._cleaner.uncleanable
        self.metrics.register(declared.UNCLEANABLE, lambda: [((), len(uncleanable))])

    async def _wait_for_quorum(self, quorum: Quorum) -> None:
        """Wait for the quorum, and log that from time to time, because the operator may have to act."""
        waiting: list[Timer] = []

        def log_waiting() -> None:
            voters = ", ".join(str(voter) for voter in sorted(quorum.core.voters))
            log.warning("waiting for the metadata quorum: a majority of the voters %s must be up", voters)
            waiting[:] = [self._clock.call_later(LOG_AGAIN_S, log_waiting)]

        waiting[:] = [self._clock.call_later(LOG_AGAIN_S, log_waiting)]
        try:
            await quorum.ready()
        finally:
            waiting[0].cancel()

    def abandon(self) -> None:
        """Stop immediately, as in a crash: no leadership is handed over, and the data folder is left as it is."""
        self._server.stop()
        self._security.stop()
        self._scheduler.stop()
        if self._lifecycle is not None:
            self._lifecycle.stop()
        if self._peers is not None:
            self._peers.close()
        for part in (self._janitor, self._cleaner):
            if part is not None:
                part.stop()
        if self._context is not None:
            context, self._context = self._context, None
            context.monitor.stop()
            context.transactions.close()
            context.groups.close()
            context.shares.close()
            context.replicas.stop()
            context.quorum.abandon()
            context.store.close(clean=False)

    async def stop(self) -> None:
        """Hand over leadership, stop serving, then close the data folder cleanly: the next start scans nothing."""
        broker_epoch = NOT_REGISTERED
        if self._lifecycle is not None:
            await self._lifecycle.leave()
            broker_epoch = self._lifecycle.broker_epoch
            self._lifecycle.stop()
        self._server.stop()
        self._security.stop()
        self._scheduler.stop()
        if self._context is not None:
            context, self._context = self._context, None
            context.monitor.stop()
            if self._peers is not None:
                self._peers.close()
            context.transactions.close()
            context.groups.close()
            context.shares.close()
            context.replicas.stop()
            if self._janitor is not None:
                self._janitor.stop()
            if self._cleaner is not None:
                self._cleaner.stop()
            try:
                await context.quorum.close()
            except (OSError, Refusal) as problem:
                log.warning("cannot close the metadata log cleanly, the next start scans it: %s", problem)
            if self._children is not None:
                await self._children.stop()
            context.store.close(broker_epoch=broker_epoch)
        await self._monitoring.stop()

    @property
    def metrics_port(self) -> int | None:
        """Return the port of the endpoint for metrics and health, or None if there is none."""
        return self._monitoring.port

    def _client_endpoints(self) -> list[Endpoint]:
        """Return the addresses for clients and other brokers, without listeners that are only for controllers."""
        named = controller_listeners(self.settings)
        return [each for each in self._endpoints if each.listener not in named] or self._endpoints

    def _bind(self) -> None:
        advertised = [parse_listener(text) for text in self.settings["advertised.listeners"] or ()]
        for name, host, port in [parse_listener(text) for text in self.settings.words("listeners")]:
            try:
                bound = self._server.bind(name, host, port, self._security.tls_of(name))
            except TlsError as error:
                raise StartupError(f"The listener {name} cannot use TLS: {error}") from None
            except OSError as error:
                if error.errno == errno.EADDRINUSE:
                    raise PortInUse(port, "--port") from None
                raise StartupError(f"Cannot listen on {host or '*'}:{port}: {error.strerror or error}") from None
            published = next((entry for entry in advertised if entry[0] == name), (name, host, bound))
            self._endpoints.append(Endpoint(name, published[1] or "localhost", published[2] or bound))

    def _identity(self, store: LogStore) -> Identity:
        return Identity(
            node_id=self.node_id,
            cluster_id=store.cluster_id,
            incarnation_id=self._entropy.uuid(),
            end_points=tuple(map(self._security.end_point, self._client_endpoints())),
            features=OWN_FEATURES,
            rack=self.settings["broker.rack"],
            log_dirs=(store.directory_id,),
            previous_broker_epoch=store.previous_broker_epoch,
            is_controller="controller" in self.settings.words("process.roles"),
        )

    def _address_of(self, node_id: int) -> tuple[str, int] | None:
        broker = self.context.quorum.image.brokers.get(NodeId(node_id))
        return None if broker is None or not broker.end_points else self._security.inter_broker_address(broker)

    def _settings_changed(self, delta: Delta, image: Image) -> None:
        if any(resource.type == BROKER for resource in delta.configs_changed):
            self.settings = self.settings.with_dynamic(
                cluster=image.config(ConfigResource(BROKER, "")),
                node=image.config(ConfigResource(BROKER, str(self.node_id))),
            )
            self.context.settings = self.settings
            self._security.settings_changed(self.settings, self._server)

    def _quotas_changed(self, delta: Delta, image: Image) -> None:
        if delta.quotas_changed:
            self._throttle.quotas_changed(image.quotas)

    def _storage_failed(self) -> None:
        """Stop serving after a failed sync: records written from now on might not be durable."""
        if self._context is None:
            return  # It is already stopping.
        store = self._context.store
        log.critical("the data folder %s is offline: %s", store.folder, store.failure)
        self._context.replicas.directory_failed()
        if self._lifecycle is not None:
            self._lifecycle.directory_failed(store.directory_id)
