"""What a node takes out of its settings before it has any parts: the folder, listeners, and bounds.

Values in, values out. Refuses with StartupError, in one line that says what to do.
"""

import sys

from penstock.config.settings import BrokerSettings
from penstock.model.errors import StartupError
from penstock.ports.network import Limits
from penstock.quotas.limits import Spans


def data_folder(settings: BrokerSettings) -> str:
    """The one folder of this node's data."""
    folders: tuple[str, ...] = settings["log.dirs"] or settings["log.dir"] or ()
    if not folders:
        raise StartupError("No data folder is given: name one with --data or log.dirs")
    if len(folders) > 1:
        raise StartupError("log.dirs names several folders: give each node one, and run a node for each disk")
    return folders[0].rstrip("/") or "/"


def parse_listener(text: str) -> tuple[str, str, int]:
    """Split NAME://HOST:PORT."""
    name, _, address = text.partition("://")
    host, _, port = address.rpartition(":")
    return name.upper(), host.strip("[]"), int(port)


def quota_spans(settings: BrokerSettings) -> Spans:
    """Kafka's windows: the oldest of them is about to end, so one fewer of them is always whole."""
    return Spans(
        rate_s=max(1, settings.integer("quota.window.num") - 1) * settings.integer("quota.window.size.seconds"),
        mutation_s=settings.integer("controller.quota.window.num")
        * settings.integer("controller.quota.window.size.seconds"),
    )


def network_limits(settings: BrokerSettings) -> Limits:
    """What one connection, and all of them, may ask of this process."""
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
