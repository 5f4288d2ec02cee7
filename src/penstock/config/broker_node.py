"""Broker options for identity, listeners, sockets, limits and the metadata log. Declarations only."""

import re
from functools import partial
from typing import Final

from penstock.config.option import (
    DAY_MS,
    GIB,
    HOUR_MS,
    INT_MAX,
    LONG_MAX,
    MIB,
    MINUTE_MS,
    SECOND_MS,
    Option,
    Value,
    declare,
    invalid,
)  # fmt: skip

_flag = partial(declare, "boolean")
_int = partial(declare, "int")
_long = partial(declare, "long")
_double = partial(declare, "double")
_text = partial(declare, "string")
_list = partial(declare, "list")

_LISTENER: Final = re.compile(r"[A-Za-z0-9_]+://(\[[0-9a-fA-F:.]*\]|[^\[\]:/]*):-?[0-9]+")


def check_listeners(name: str, value: Value) -> None:
    """Reject anything except a list of `NAME://host:port` with distinct names."""
    entries = value if isinstance(value, tuple) else ()
    seen: set[str] = set()
    for entry in entries:
        if not _LISTENER.fullmatch(entry):
            raise invalid(name, entry, "Each listener must have the form NAME://host:port")
        listener = entry.partition("://")[0].upper()
        if listener in seen:
            raise invalid(name, ",".join(entries), "Each listener must have a different name")
        seen.add(listener)


def check_metrics_listener(name: str, value: Value) -> None:
    """Reject anything except `http://host:port`, `unix:/path` and an empty value."""
    text = str(value or "")
    if text and not text.startswith("unix:/") and not (_LISTENER.fullmatch(text) and text.startswith("http://")):
        raise invalid(name, value, "It must have the form http://host:port or unix:/path")


def check_connection_overrides(name: str, value: Value) -> None:
    """Reject anything except a list of `host:count`."""
    for entry in str(value or "").split(","):
        host, _, count = entry.strip().rpartition(":")
        if entry.strip() and (not host or not count.isascii() or not count.isdigit()):
            raise invalid(name, value, "Each entry must have the form host:count")


NODE_OPTIONS: Final[tuple[Option, ...]] = (
    # Identity
    _int("node.id", 1, least=0,
         doc="The id of this node in its cluster. It is required in Kafka; here the default is 1. `--node-id` on the "
             "command line sets it."),
    _int("broker.id", -1, "The old name of node.id. Setting either one sets both."),
    _list("process.roles", ("broker", "controller"), choices=("broker", "controller"),
          doc="The roles of this process. A single node has both; Kafka has no default."),
    _text("cluster.id", None, own=True,
          doc="The id of the cluster that this node belongs to. The node refuses to start with the data directory of "
              "another cluster. A new data directory gets this id, or a generated one if the option is not set."),
    _text("broker.rack", None, "The rack of this broker. Replicas of a partition are spread across racks."),
    # Listeners
    _list("listeners", ("PLAINTEXT://:9092",), check=check_listeners,
          doc="The addresses to listen on, as `NAME://host:port`. An empty host means all interfaces, port 0 any free "
              "port. `--port` on the command line sets it."),
    _list("advertised.listeners", None, check=check_listeners,
          doc="The addresses that clients connect to, if they differ from listeners: behind a load balancer, or in a "
              "container."),
    _text("listener.security.protocol.map",
          "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
          doc="The security protocol of each listener name. If every listener uses PLAINTEXT, names need not be "
              "listed."),
    _text("inter.broker.listener.name", None, "The listener for communication between brokers."),
    _text("security.inter.broker.protocol", "PLAINTEXT", choices=("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
          doc="The protocol between brokers if inter.broker.listener.name is not set."),
    _list("controller.listener.names", (),
          doc="The listeners of the controller. A single node needs none; Kafka requires one."),
    # Sockets and requests
    _int("socket.request.max.bytes", 100 * MIB, least=1,
         doc="The maximum size of a request. A connection that announces a larger one is closed."),
    _long("queued.max.request.bytes", 512 * MIB,
          doc="The maximum memory for requests that are being received, across all connections. A request counts with "
              "its full size once 64 KiB of it have arrived. Above the limit, the broker stops reading; a quarter is "
              "reserved for requests of up to 2 MiB. If a request waits for 2 seconds, the broker closes connections "
              "whose requests make no progress, starting with those that have held the most memory for the longest "
              "time. Kafka's default is -1: no limit."),
    _int("socket.frame.timeout.ms", 30 * SECOND_MS, least=1, own=True,
         doc="How long a request that is being received may make no progress before its connection is closed. Progress "
             "is the whole of a small request (16 KiB), or a fifteenth of a larger one with the default value; a "
             "steady trickle of fewer bytes does not count as progress. Time during which the broker does not read is "
             "not counted."),
    _int("socket.send.timeout.ms", 60 * SECOND_MS, least=1, own=True,
         doc="How long a client may leave responses unread before its connection is closed."),
    _int("socket.receive.buffer.bytes", -1, least=-1,
         doc="The size of the socket receive buffer; -1 uses the operating system's default, which adapts to the "
             "connection. Kafka's default is 102400."),
    _int("socket.send.buffer.bytes", -1, least=-1,
         doc="The size of the socket send buffer; -1 uses the operating system's default, which adapts to the "
             "connection. Kafka's default is 102400."),
    _int("socket.listen.backlog.size", 1024, least=1,
         doc="The maximum number of connections that wait to be accepted. Kafka's default is 50."),
    _long("connections.max.idle.ms", 10 * MINUTE_MS, "A connection that is idle for this long is closed."),
    _int("request.timeout.ms", 30 * SECOND_MS, "How long this broker waits for a response from another broker."),
    _int("max.connections", 10_000, least=0, scope="cluster-wide",
         doc="The maximum number of open connections. Kafka has no limit by default."),
    _int("max.connections.per.ip", 500, least=0, scope="cluster-wide",
         doc="The maximum number of open connections per IP address. Clients on this machine are exempt unless the "
             "option is set. Kafka has no limit by default."),
    _text("max.connections.per.ip.overrides", "", scope="cluster-wide", check=check_connection_overrides,
          doc="Exceptions from max.connections.per.ip for some addresses, as `host:count,host:count`."),
    _int("max.connection.creation.rate", INT_MAX, least=0, scope="cluster-wide",
         doc="The maximum number of new connections per second."),
    _int("max.connection.creation.rate.per.ip", 100, least=0, scope="cluster-wide", own=True,
         doc="The maximum number of new connections per second and IP address. Clients on this machine are exempt. "
             "Kafka offers this limit only as a quota."),
    _int("fetch.max.bytes", 55 * MIB, least=1024,
         doc="The maximum size of a fetch response. A single larger batch is still returned."),
    _int("max.incremental.fetch.session.cache.slots", 1000, "The maximum number of fetch sessions.", least=0),
    _int("min.incremental.fetch.session.eviction.ms", 2 * MINUTE_MS, least=0, internal=True, own=True,
         doc="The minimum age of a fetch session before a newer one may evict it."),
    _int("max.request.partition.size.limit", 2000, least=1,
         doc="The maximum number of partitions in one DescribeTopicPartitions response."),
    # Thread counts, which Kafka's tools and scripts set
    _int("num.network.threads", 3, least=1, scope="cluster-wide",
         doc="The number of threads that receive requests and send responses."),
    _int("num.io.threads", 8, "The number of threads that process requests.", least=1, scope="cluster-wide"),
    _int("background.threads", 10, "The number of threads for background tasks.", least=1, scope="cluster-wide"),
    _int("num.recovery.threads.per.data.dir", 2, least=1, scope="cluster-wide",
         doc="The number of threads per data directory for log recovery at startup."),
    _int("log.cleaner.threads", 1, "The number of compaction threads.", least=0, scope="cluster-wide"),
    _int("queued.max.requests", 500, least=1,
         doc="The number of queued requests above which the network threads stop reading."),
    # The metadata quorum and its log
    _list("controller.quorum.bootstrap.servers", (),
          doc="The addresses of the metadata quorum, as `host:port`, for a node without controller.quorum.voters."),
    _list("controller.quorum.voters", (),
          doc="The voters of the metadata quorum, as `id@host:port`. Every node must have the same list. With three or "
              "more voters, the default replication factor of topics is 3, or 2 if the voters are on two hosts."),
    _flag("controller.quorum.auto.join.enable", False, "Join the metadata quorum as a voter automatically."),
    _int("controller.quorum.election.timeout.ms", SECOND_MS, least=0,
         doc="How long a candidate waits for votes before it starts a new election."),
    _int("controller.quorum.election.backoff.max.ms", SECOND_MS, "The maximum delay between two elections.", least=0),
    _int("controller.quorum.fetch.timeout.ms", 2 * SECOND_MS, least=0,
         doc="How long a voter goes without a successful fetch from the leader before it becomes a candidate."),
    _int("controller.quorum.request.timeout.ms", 2 * SECOND_MS, least=0,
         doc="The timeout of a request within the quorum."),
    _int("controller.quorum.retry.backoff.ms", 20, least=0,
         doc="The delay before a request within the quorum is retried."),
    _int("controller.quorum.append.linger.ms", 25, least=0,
         doc="How long the leader collects records before it writes them."),
    _int("controller.quorum.fetch.max.bytes", 1 * MIB, "The maximum size of a fetch of the metadata log.", least=1),
    _int("controller.quorum.fetch.snapshot.max.bytes", 1 * MIB, least=1,
         doc="The maximum size of one FetchSnapshot response."),
    _text("metadata.log.dir", None, "The directory of the metadata log, if it is not the first of log.dirs."),
    _int("metadata.log.segment.bytes", 1 * GIB, least=8 * MIB,
         doc="The size at which a segment of the metadata log is rolled."),
    _long("metadata.log.segment.ms", 7 * DAY_MS, "The age at which a segment of the metadata log is rolled."),
    _long("metadata.max.retention.bytes", 100 * MIB,
          doc="The size above which old snapshots and segments of the metadata log are deleted."),
    _long("metadata.max.retention.ms", 7 * DAY_MS,
          doc="The age above which old snapshots and segments of the metadata log are deleted."),
    _long("metadata.log.max.record.bytes.between.snapshots", 20 * MIB, least=1,
          doc="Take a snapshot of the metadata after this many bytes of records."),
    _long("metadata.log.max.snapshot.interval.ms", HOUR_MS, least=0,
          doc="The maximum interval between snapshots of the metadata if there are new records; 0 disables it."),
    _int("metadata.max.idle.interval.ms", 500, least=0,
         doc="How often the active controller writes a no-op record when it is idle, so that other controllers see "
             "that it is alive; 0 disables it."),
    _int("initial.broker.registration.timeout.ms", MINUTE_MS, "How long a broker tries to register at startup."),
    _int("broker.heartbeat.interval.ms", 2 * SECOND_MS, "The interval of broker heartbeats to the controller."),
    _int("broker.session.timeout.ms", 9 * SECOND_MS, "A broker that sends no heartbeat for this long is fenced."),
    _flag("controlled.shutdown.enable", True, "Move partition leadership to other brokers before shutdown."),
    _flag("auto.leader.rebalance.enable", True, "Periodically move leadership back to the preferred replicas."),
    _long("leader.imbalance.check.interval.seconds", 300, "How often leaders are rebalanced.", least=1),
    _flag("unstable.api.versions.enable", False, "Enable API versions that are not final.", internal=True),
    _flag("unstable.feature.versions.enable", False, "Enable feature versions that are not final.", internal=True),
    # Kerberos is not supported, so these are harmless. Clients' test suites set them on any broker.
    _text("sasl.kerberos.service.name", None, "The Kerberos principal name of the brokers.", scope="per-broker"),
    _text("sasl.kerberos.kinit.cmd", "/usr/bin/kinit", "The path of kinit.", scope="per-broker"),
    _double("sasl.kerberos.ticket.renew.window.factor", 0.8, scope="per-broker",
            doc="The fraction of a ticket's lifetime after which it is renewed."),
    _double("sasl.kerberos.ticket.renew.jitter", 0.05, scope="per-broker",
            doc="The random jitter added to the renewal time."),
    _long("sasl.kerberos.min.time.before.relogin", MINUTE_MS, scope="per-broker",
          doc="The minimum time between two login attempts."),
    _list("sasl.kerberos.principal.to.local.rules", ("DEFAULT",), scope="per-broker",
          doc="The rules that map principals to short names."),
    # Monitoring
    _text("metrics.listener", None, own=True, check=check_metrics_listener,
          doc="The address of the metrics, health and readiness endpoints, as `http://host:port`, or `unix:/path` for "
              "a Unix socket. They are disabled if it is not set. They require no password, so choose an address that "
              "only your monitoring can reach."),
    _text("metrics.names", "auto", choices=("auto", "shown", "hidden"), own=True,
          doc="Whether the endpoints reveal the names of topics and groups. `auto` hides them if an authorizer is "
              "configured, because the endpoints require no login. Metrics of topics then have the sum of all topics, "
              "and metrics of partitions and groups are omitted."),
    _int("metrics.partitions.max", 1000, least=0, own=True,
         doc="The maximum number of partitions with metrics of their own: the busiest of those that this broker "
             "leads."),
    _text("log.format", "text", choices=("text", "json"), own=True,
          doc="The format of log lines: `text` for people, `json` for programs."),
    # Quotas
    _int("quota.window.num", 11, least=1,
         doc="The number of windows for client quotas. A client's rate is held to its quota over all windows except "
             "the current one; no period of that length exceeds the quota by more than 10 percent."),
    _int("quota.window.size.seconds", 1, "The length of a window for client quotas.", least=1),
    _int("controller.quota.window.num", 11, least=1,
         doc="The number of windows over which the rate of topic changes is averaged."),
    _int("controller.quota.window.size.seconds", 1, "The length of a window for the rate of topic changes.", least=1),
    _int("replication.quota.window.num", 11, "The number of windows for the replication rate.", least=1),
    _int("replication.quota.window.size.seconds", 1, "The length of a window for the replication rate.", least=1),
    _long("leader.replication.throttled.rate", LONG_MAX, least=0, scope="per-broker",
          doc="The maximum rate, in bytes per second, at which this broker sends to throttled replicas as their "
              "leader."),
    _long("follower.replication.throttled.rate", LONG_MAX, least=0, scope="per-broker",
          doc="The maximum rate, in bytes per second, at which this broker fetches for throttled replicas."),
    _long("replica.alter.log.dirs.io.max.bytes.per.second", LONG_MAX, least=0, scope="per-broker",
          doc="The maximum rate, in bytes per second, for moving replicas between data directories."),
)  # fmt: skip
