"""penstock start: one broker in the foreground, until SIGTERM or SIGINT.

Turns the command line into settings, the settings into a node, and a refusal to start into
one line. Prints `ready HOST:PORT` once, when clients can connect. Next: node.py.
"""

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.actions.connection import parse_pairs
from penstock.cli.errors import CommandError
from penstock.cli.log_format import LogFormat
from penstock.actions.client_properties import read_file

if TYPE_CHECKING:
    from penstock.config.settings import BrokerSettings

EXAMPLE = "Example: penstock start --data ./data --port 9092 --set num.partitions=3"
DEFAULT_PORT = 9092
DEFAULT_DATA = "./data"
LEVELS = ("debug", "info", "warning", "error")


def start(
    data: Annotated[
        Path | None, typer.Option("--data", "-d", metavar="DIR", help="Where records live.", show_default=DEFAULT_DATA)
    ] = None,
    port: Annotated[
        int | None,
        typer.Option("--port", "-p", min=0, max=65535, help="Where to listen; 0: a free port.", show_default="9092"),
    ] = None,
    host: Annotated[
        str | None,
        typer.Option("--host", help="The name to listen on and to give to clients.", show_default="localhost"),
    ] = None,
    node_id: Annotated[
        int | None, typer.Option("--node-id", min=0, help="The number of this node.", show_default="1")
    ] = None,
    cluster_id: Annotated[
        str | None,
        typer.Option("--cluster-id", help="The cluster of this node.", show_default="that of the folder"),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", "-s", metavar="KEY=VALUE", help="A setting by its Kafka name; repeatable, wins over the file."
        ),
    ] = None,
    config: Annotated[
        Path | None, typer.Option("--config", "-c", metavar="FILE", help="Settings, as in Kafka's server.properties.")
    ] = None,
    metrics: Annotated[
        int | None,
        typer.Option("--metrics", min=0, max=65535, help="Serve /metrics, /health and /ready on this local port."),
    ] = None,
    log_level: Annotated[str, typer.Option("--log-level", help=f"How much to say: {', '.join(LEVELS)}.")] = "info",
    log_format: Annotated[
        LogFormat | None,
        typer.Option("--log-format", help="How to say it: lines for people or JSON.", show_default="text"),
    ] = None,
) -> None:
    """Run a broker in the foreground. SIGTERM or Ctrl-C ends it cleanly."""
    file = read_file(config, option="--config") if config is not None else {}
    pairs = parse_pairs(settings or [], option="--set num.partitions=3")
    if cluster_id is not None:
        pairs["cluster.id"] = cluster_id
    if metrics is not None:
        pairs["metrics.listener"] = f"http://127.0.0.1:{metrics}"
    overrides = build_overrides(file, pairs, data=data, host=host, port=port, node_id=node_id)
    if log_format is not None:
        overrides["log.format"] = log_format.value

    import asyncio

    from penstock.config.settings import BrokerSettings
    from penstock.ports.real.loop import NodeLoop

    loaded = BrokerSettings.load(file=file, overrides=overrides)
    _configure_logging(log_level, LogFormat(loaded.text("log.format")))
    with asyncio.Runner(loop_factory=NodeLoop) as runner:
        runner.run(_serve(loaded))


def build_overrides(
    file: dict[str, str],
    pairs: dict[str, str],
    *,
    data: Path | None,
    host: str | None,
    port: int | None,
    node_id: int | None,
) -> dict[str, str]:
    """Lay the options of the command line over the file: an own option wins over --set, both over the file."""
    overrides = dict(pairs)
    given = {**file, **pairs}
    folders = str(data) if data is not None else given.get("log.dirs") or given.get("log.dir") or str(DEFAULT_DATA)
    # What tools are told, and hand back when they move replicas, does not depend on where the node was started.
    absolute = ",".join(str(Path(folder.strip()).absolute()) for folder in folders.split(","))
    if absolute != given.get("log.dirs"):
        overrides["log.dirs"] = absolute
    if host is not None or port is not None or "listeners" not in given:
        overrides["listeners"] = f"PLAINTEXT://{host or 'localhost'}:{DEFAULT_PORT if port is None else port}"
    if node_id is not None:
        overrides["node.id"] = str(node_id)
    return overrides


async def _serve(settings: "BrokerSettings") -> None:
    import asyncio
    import signal
    import sys

    # kio makes test strategies of its types wherever hypothesis can be imported. A broker has no
    # use for them, and in a developer's environment they are half of its time to start.
    sys.modules.setdefault("hypothesis", None)  # type: ignore[arg-type]

    from penstock.node import Node
    from penstock.ports.real import (
        RealChildren,
        RealClock,
        RealDisk,
        RealEntropy,
        RealNetwork,
        ThreadOffload,
        real_instruments,
    )
    from penstock.ports.real.process import settle_memory

    _allow_many_files()
    asked_to_stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, asked_to_stop.set)
    disk, network = RealDisk(), RealNetwork()
    node = Node(
        settings,
        clock=RealClock(),
        entropy=RealEntropy(),
        disk=disk,
        network=network,
        children=RealChildren(),
        offload=ThreadOffload(),
        instruments=real_instruments(disk, network),
    )
    asked = asyncio.ensure_future(asked_to_stop.wait())
    try:
        starting = asyncio.ensure_future(node.start())
        await asyncio.wait((starting, asked), return_when=asyncio.FIRST_COMPLETED)
        if not starting.done():
            # It may wait for a quorum that is not there, for as long as it takes.
            starting.cancel()
            await asyncio.gather(starting, return_exceptions=True)
            return
        await starting
        settle_memory()
        print(f"ready {node.bootstrap}", flush=True)
        broken = asyncio.ensure_future(node.broken.wait())
        await asyncio.wait((broken, asked), return_when=asyncio.FIRST_COMPLETED)
        if broken.done():
            node.abandon()
            raise CommandError("The disk failed this node: look at its log, and start it again once the disk is well.")
        broken.cancel()
        await node.stop()
    finally:
        asked.cancel()
        network.stop()
        disk.stop()


def _allow_many_files() -> None:
    """Each partition and each connection holds a descriptor; the usual soft limit of 1024 is soon used up."""
    import resource

    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _configure_logging(level: str, style: LogFormat) -> None:
    import logging

    if level not in LEVELS:
        raise CommandError(f"There is no log level '{level}': choose {', '.join(LEVELS)}.")
    from penstock.cli.log_format import formatter

    handler = logging.StreamHandler()
    handler.setFormatter(formatter(style))
    logging.basicConfig(level=level.upper(), handlers=[handler])
