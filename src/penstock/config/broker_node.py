"""The broker's options on itself: identity, listeners, sockets, limits, the metadata log. Only declarations."""

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
    """Pass a list of `NAME://host:port`, each name once."""
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
    """Pass `http://host:port`, or nothing."""
    if value and not (_LISTENER.fullmatch(str(value)) and str(value).startswith("http://")):
        raise invalid(name, value, "It must have the form http://host:port")


def check_connection_overrides(name: str, value: Value) -> None:
    """Pass a list of `host:count`."""
    for entry in str(value or "").split(","):
        host, _, count = entry.strip().rpartition(":")
        if entry.strip() and (not host or not count.isascii() or not count.isdigit()):
            raise invalid(name, value, "Each entry must have the form host:count")


NODE_OPTIONS: Final[tuple[Option, ...]] = (
    # Identity
    _int("node.id", 1, least=0,
         doc="The number of this node in its cluster. Kafka asks for it; here it is 1 unless `--node-id` or this "
             "option says otherwise."),
    _int("broker.id", -1, "The old name of node.id; whichever is given counts for both."),
    _list("process.roles", ("broker", "controller"), choices=("broker", "controller"),
          doc="What this process does. A single node is both; Kafka has no default here."),
    _text("cluster.id", None, own=True,
          doc="The cluster that this node belongs to. A data folder of another cluster is then refused; a new folder "
              "gets this id, or a fresh one if none is given."),
    _text("broker.rack", None, "Where this node stands: replicas of one partition are spread over racks."),
    # Listeners
    _list("listeners", ("PLAINTEXT://:9092",), check=check_listeners,
          doc="The addresses to listen on, as `NAME://host:port`. An empty host is every interface, port 0 any free "
              "one. `--port` on the command line sets it."),
    _list("advertised.listeners", None, check=check_listeners,
          doc="The addresses that clients are told to connect to, where these differ from listeners: behind a load "
              "balancer, or in a container."),
    _text("listener.security.protocol.map",
          "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
          doc="Which security protocol each listener name speaks; a name that is not in it speaks PLAINTEXT. Nothing "
              "else is there yet, so a listener that is to speak another is refused."),
    _text("inter.broker.listener.name", None, "The listener that other brokers use."),
    _text("security.inter.broker.protocol", "PLAINTEXT", choices=("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
          doc="The protocol between brokers while inter.broker.listener.name is not set. Only PLAINTEXT is there yet; "
              "another is refused."),
    _list("controller.listener.names", (),
          doc="The listeners that serve the metadata quorum. A single node needs none; Kafka asks for one."),
    # Sockets and requests
    _int("socket.request.max.bytes", 100 * MIB, least=1,
         doc="The largest request; a connection that announces more is closed."),
    _long("queued.max.request.bytes", 512 * MIB,
          doc="How much memory requests may hold while they arrive, over all connections. A request counts with its "
              "whole size once 64 KiB of it have arrived. Beyond the bound, reading waits; a quarter is kept for "
              "requests of up to 2 MiB. If a request waits for 2 seconds, connections are closed whose requests make "
              "no progress, those first that hold most for the longest time. Kafka's default is -1: no bound."),
    _int("socket.frame.timeout.ms", 30 * SECOND_MS, least=1, own=True,
         doc="How long a request that is arriving may go without progress before its connection is closed. Progress is "
             "the whole of a small request (16 KiB), or a fifteenth of a larger one with the default value: fewer "
             "bytes, however steady, do not count. Time during which this broker does not read does not count "
             "either."),
    _int("socket.send.timeout.ms", 60 * SECOND_MS, least=1, own=True,
         doc="How long a client may leave its answers unread before the connection is closed."),
    _int("socket.receive.buffer.bytes", -1, least=-1,
         doc="The receive buffer that the operating system is asked for; -1 leaves it to the system, which lets it "
             "grow as needed. Kafka's default is 102400."),
    _int("socket.send.buffer.bytes", -1, least=-1,
         doc="The send buffer that the operating system is asked for; -1 leaves it to the system, which lets it "
             "grow as needed. Kafka's default is 102400."),
    _int("socket.listen.backlog.size", 1024, least=1,
         doc="How many connections may wait to be accepted. Kafka's default is 50."),
    _long("connections.max.idle.ms", 10 * MINUTE_MS, "A connection without any traffic for this long is closed."),
    _int("request.timeout.ms", 30 * SECOND_MS, "How long this broker waits for an answer from another."),
    _int("max.connections", 10_000, least=0, scope="cluster-wide",
         doc="How many connections may be open at once. Kafka's default sets no bound."),
    _int("max.connections.per.ip", 500, least=0, scope="cluster-wide",
         doc="How many connections one address may have open at once. Clients on this machine are exempt unless the "
             "option is set. Kafka's default sets no bound."),
    _text("max.connections.per.ip.overrides", "", scope="cluster-wide", check=check_connection_overrides,
          doc="Other values of max.connections.per.ip for some addresses, as `host:count,host:count`."),
    _int("max.connection.creation.rate", INT_MAX, least=0, scope="cluster-wide",
         doc="How many new connections a second are accepted."),
    _int("max.connection.creation.rate.per.ip", 100, least=0, scope="cluster-wide", own=True,
         doc="How many new connections a second one address may open. Clients on this machine are exempt. Kafka has "
             "this as a quota only."),
    _int("fetch.max.bytes", 55 * MIB, least=1024,
         doc="The most that one fetch returns; a single larger batch still passes."),
    _int("max.incremental.fetch.session.cache.slots", 1000, "How many fetch sessions are kept.", least=0),
    _int("min.incremental.fetch.session.eviction.ms", 2 * MINUTE_MS, least=0, internal=True, own=True,
         doc="How long a fetch session is left alone before a newer one may take its place."),
    _int("max.request.partition.size.limit", 2000, least=1,
         doc="The most partitions in one answer to DescribeTopicPartitions."),
    # Threads, which Kafka's tools and scripts set
    _int("num.network.threads", 3, "The threads that read requests and send answers.", least=1, scope="cluster-wide"),
    _int("num.io.threads", 8, "The threads that handle requests.", least=1, scope="cluster-wide"),
    _int("background.threads", 10, "The threads of background work.", least=1, scope="cluster-wide"),
    _int("num.recovery.threads.per.data.dir", 2, least=1, scope="cluster-wide",
         doc="The threads that check a folder's logs at the start."),
    _int("log.cleaner.threads", 1, "The threads of compaction.", least=0, scope="cluster-wide"),
    _int("queued.max.requests", 500, least=1,
         doc="How many requests may wait for a thread before reading pauses."),
    # The quorum and its log
    _list("controller.quorum.bootstrap.servers", (),
          doc="Where the metadata quorum can be found, as `host:port`, for a node that is not told the voters."),
    _list("controller.quorum.voters", (),
          doc="The voters of the metadata quorum, as `id@host:port`: where the others reach each. The same "
              "list on every node. With three or more, topics get three replicas unless something else is set."),
    _flag("controller.quorum.auto.join.enable", False, "Join the metadata quorum as a voter without being asked."),
    _int("controller.quorum.election.timeout.ms", SECOND_MS, least=0,
         doc="How long to wait for votes before asking again."),
    _int("controller.quorum.election.backoff.max.ms", SECOND_MS, "The longest pause between two elections.", least=0),
    _int("controller.quorum.fetch.timeout.ms", 2 * SECOND_MS, least=0,
         doc="How long a voter goes without news from the leader before it stands for election."),
    _int("controller.quorum.request.timeout.ms", 2 * SECOND_MS, least=0,
         doc="How long a request within the quorum may take."),
    _int("controller.quorum.retry.backoff.ms", 20, least=0,
         doc="The pause before a request within the quorum is repeated."),
    _int("controller.quorum.append.linger.ms", 25, least=0,
         doc="How long the leader gathers records before it writes them."),
    _int("controller.quorum.fetch.max.bytes", 1 * MIB, "The most that one fetch of the metadata log returns.", least=1),
    _int("controller.quorum.fetch.snapshot.max.bytes", 1 * MIB, least=1,
         doc="The most that one fetch of a snapshot returns."),
    _text("metadata.log.dir", None, "The folder of the metadata log, where it is not the first of log.dirs."),
    _int("metadata.log.segment.bytes", 1 * GIB, least=8 * MIB,
         doc="Close a segment of the metadata log once it holds this many bytes."),
    _long("metadata.log.segment.ms", 7 * DAY_MS, "Close a segment of the metadata log once it is this old."),
    _long("metadata.max.retention.bytes", 100 * MIB,
          doc="Above this size, old snapshots and segments of the metadata log are deleted."),
    _long("metadata.max.retention.ms", 7 * DAY_MS,
          doc="Above this age, old snapshots and segments of the metadata log are deleted."),
    _long("metadata.log.max.record.bytes.between.snapshots", 20 * MIB, least=1,
          doc="Write a snapshot of the metadata after this many bytes of records."),
    _long("metadata.log.max.snapshot.interval.ms", HOUR_MS, least=0,
          doc="Write a snapshot of the metadata at least this often, if there is anything new; 0 is never by time."),
    _int("metadata.max.idle.interval.ms", 500, least=0,
         doc="How often the active controller of several writes a record when there is none to write, so that the "
             "others see it lives; 0 is never."),
    _int("initial.broker.registration.timeout.ms", MINUTE_MS, "How long a starting broker tries to register."),
    _int("broker.heartbeat.interval.ms", 2 * SECOND_MS, "How often a broker tells the controller that it lives."),
    _int("broker.session.timeout.ms", 9 * SECOND_MS, "After this long without a heartbeat a broker counts as gone."),
    _flag("controlled.shutdown.enable", True, "Hand leadership over before stopping."),
    _flag("auto.leader.rebalance.enable", True, "Move leadership back to the preferred replicas from time to time."),
    _long("leader.imbalance.check.interval.seconds", 300, "How often the balance of leaders is looked at.", least=1),
    _flag("unstable.api.versions.enable", False, "Serve versions of APIs that are not final.", internal=True),
    _flag("unstable.feature.versions.enable", False, "Allow feature levels that are not final.", internal=True),
    # Of a mechanism that nobody can choose: harmless, and clients' test suites set them on any broker
    _text("sasl.kerberos.service.name", None, "The name under which brokers run.", scope="per-broker"),
    _text("sasl.kerberos.kinit.cmd", "/usr/bin/kinit", "Where kinit is.", scope="per-broker"),
    _double("sasl.kerberos.ticket.renew.window.factor", 0.8, scope="per-broker",
            doc="When, in its life, a ticket is renewed."),
    _double("sasl.kerberos.ticket.renew.jitter", 0.05, scope="per-broker",
            doc="How much chance is added to the time of renewal."),
    _long("sasl.kerberos.min.time.before.relogin", MINUTE_MS, scope="per-broker",
          doc="The least pause between two logins."),
    _list("sasl.kerberos.principal.to.local.rules", ("DEFAULT",), scope="per-broker",
          doc="How principals become short names."),
    # For those who watch
    _text("metrics.listener", None, own=True, check=check_metrics_listener,
          doc="Where metrics, health and readiness are served, as `http://host:port`. Not served without it: there is "
              "no password, so choose an address that only those who watch can reach."),
    _int("metrics.partitions.max", 1000, least=0, own=True,
         doc="Of how many partitions the metrics tell how much is written to each: the busiest of those led here."),
    _text("log.format", "text", choices=("text", "json"), own=True,
          doc="How log lines look: text for people, json for machines."),
    # Quotas
    _int("quota.window.num", 11, least=1,
         doc="Over how many windows, less the one that is passing, the rate of a client is held to its quota: no span "
             "of that length sees more than 1.1 of it."),
    _int("quota.window.size.seconds", 1, "How long one window of a client's rate is.", least=1),
    _int("controller.quota.window.num", 11, least=1,
         doc="How many windows the rate of changes to topics is averaged over."),
    _int("controller.quota.window.size.seconds", 1, "How long one window of the rate of changes is.", least=1),
    _int("replication.quota.window.num", 11, "How many windows the rate of replication is averaged over.", least=1),
    _int("replication.quota.window.size.seconds", 1, "How long one window of the rate of replication is.", least=1),
    _long("leader.replication.throttled.rate", LONG_MAX, least=0, scope="per-broker",
          doc="Bytes a second that this broker sends, as leader, to throttled replicas."),
    _long("follower.replication.throttled.rate", LONG_MAX, least=0, scope="per-broker",
          doc="Bytes a second that this broker fetches for throttled replicas."),
    _long("replica.alter.log.dirs.io.max.bytes.per.second", LONG_MAX, least=0, scope="per-broker",
          doc="Bytes a second for moving replicas between folders."),
)  # fmt: skip
