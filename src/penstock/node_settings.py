"""Values that a node derives from its settings before its parts exist: the data folder, listeners, and limits.

Values in, values out; `check_cluster_id` also looks into the data folder. Refuses with StartupError, in one line
that says what to do.
"""

import sys

from penstock.config.settings import BrokerSettings
from penstock.model.errors import StartupError
from penstock.ports.disk import Disk
from penstock.ports.network import Limits
from penstock.quotas.limits import Spans
from penstock.storage.meta_properties import FILE_NAME as META_PROPERTIES


def data_folder(settings: BrokerSettings) -> str:
    """Return this node's data folder."""
    folders: tuple[str, ...] = settings["log.dirs"] or settings["log.dir"] or ()
    if not folders:
        raise StartupError("No data folder is given: set one with --data or log.dirs")
    if len(folders) > 1:
        raise StartupError("log.dirs names several folders: give each node one folder, and run one node for each disk")
    return folders[0].rstrip("/") or "/"


def parse_listener(text: str) -> tuple[str, str, int]:
    """Split NAME://HOST:PORT."""
    name, _, address = text.partition("://")
    host, _, port = address.rpartition(":")
    return name.upper(), host.strip("[]"), int(port)


def quota_spans(settings: BrokerSettings) -> Spans:
    """Return the windows of quotas as in Kafka: the oldest window is about to end, so one fewer is always complete."""
    return Spans(
        rate_s=max(1, settings.integer("quota.window.num") - 1) * settings.integer("quota.window.size.seconds"),
        mutation_s=settings.integer("controller.quota.window.num")
        * settings.integer("controller.quota.window.size.seconds"),
    )


def network_limits(settings: BrokerSettings) -> Limits:
    """Return the limits of one connection, and of all connections together."""
    budget = settings.integer("queued.max.request.bytes")
    return Limits(
        frame_size_max=settings.integer("socket.request.max.bytes"),
        memory_budget=budget if budget > 0 else sys.maxsize,
        frame_s_max=settings.integer("socket.frame.timeout.ms") / 1000,
        send_stall_s_max=settings.integer("socket.send.timeout.ms") / 1000,
        idle_s_max=settings.integer("connections.max.idle.ms") / 1000,
        backlog=settings.integer("socket.listen.backlog.size"),
        receive_buffer_size=settings.integer("socket.receive.buffer.bytes"),
        send_buffer_size=settings.integer("socket.send.buffer.bytes"),
    )


def check_cluster_id(settings: BrokerSettings, disk: Disk, folder: str) -> None:
    """Check that a new node of a cluster has a cluster id: nodes that generate ids would never form one cluster."""
    is_clustered = settings.words("controller.quorum.voters") or settings.words("controller.quorum.bootstrap.servers")
    if is_clustered and settings["cluster.id"] is None and not disk.exists(f"{folder}/{META_PROPERTIES}"):
        raise StartupError("A new node of a cluster needs the cluster's id: set cluster.id, the same on every node")
