"""penstock start: run a broker in the foreground until SIGTERM or SIGINT.

Prints `ready HOST:PORT` once, when clients can connect. The node itself is in node/.
"""

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.actions.client_properties import read_properties_file
from penstock.cli.arguments import SecureOption, parse_pairs
from penstock.cli.errors import CommandError
from penstock.cli.lifetime import StopAtEofOption, stop_at_end_of_input, stop_signals
from penstock.cli.log_format import LogFormat

if TYPE_CHECKING:
    from penstock.actions.secure_folder import SecureFolder
    from penstock.config.settings import BrokerSettings
    from penstock.ports.service_manager import ServiceManager

EXAMPLE = "Example: penstock start --data ./data --port 9092 --set num.partitions=3"
DEFAULT_PORT = 9092
DEFAULT_DATA = "./data"
LEVELS = ("debug", "info", "warning", "error")


def start(
    data: Annotated[
        Path | None, typer.Option("--data", "-d", metavar="DIR", help="Data folder.", show_default=DEFAULT_DATA)
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(
            "--port", "-p", min=0, max=65535, help="Port to listen on; 0 picks a free one.", show_default="9092"
        ),
    ] = None,
    host: Annotated[
        str | None,
        typer.Option("--host", help="Host name to listen on and to advertise.", show_default="localhost"),
    ] = None,
    node_id: Annotated[int | None, typer.Option("--node-id", min=0, help="Node id.", show_default="1")] = None,
    cluster_id: Annotated[
        str | None,
        typer.Option("--cluster-id", help="Cluster id.", show_default="from the data folder"),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            "-s",
            metavar="NAME=VALUE",
            help="Broker option under Kafka's name; overrides the file. Repeatable.",
        ),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            "--config", "-c", metavar="FILE", help="File of broker options, in the format of Kafka's server.properties."
        ),
    ] = None,
    metrics: Annotated[
        int | None,
        typer.Option(
            "--metrics", min=0, max=65535, help="Serve /metrics, /health and /ready on this port of 127.0.0.1."
        ),
    ] = None,
    secure: SecureOption = False,
    log_level: Annotated[str, typer.Option("--log-level", help=f"Log level: {', '.join(LEVELS)}.")] = "info",
    log_format: Annotated[
        LogFormat | None,
        typer.Option("--log-format", help="Format of log lines.", show_default="text"),
    ] = None,
    stop_at_eof: StopAtEofOption = False,
) -> None:
    """Run a broker in the foreground until SIGTERM, Ctrl-C or the end of its terminal."""
    file = read_properties_file(config) if config is not None else {}
    pairs = parse_pairs(settings or [], example="--set num.partitions=3")
    if cluster_id is not None:
        pairs["cluster.id"] = cluster_id
    if metrics is not None:
        pairs["metrics.listener"] = f"http://127.0.0.1:{metrics}"
    overrides = build_overrides(file, pairs, data=data, host=host, port=port, node_id=node_id)
    folder = _secure(overrides, {**file, **pairs}) if secure else None
    if log_format is not None:
        overrides["log.format"] = log_format.value

    from penstock.config.settings import BrokerSettings

    loaded = BrokerSettings.load(file=file, overrides=overrides)
    _configure_logging(log_level, LogFormat(loaded.text("log.format")))
    if stop_at_eof:
        stop_at_end_of_input()
    _run(loaded, folder)


def _run(settings: "BrokerSettings", folder: "SecureFolder | None") -> None:
    import asyncio

    from penstock.model.errors import PortInUse
    from penstock.ports.real.loop import NodeLoop

    with asyncio.Runner(loop_factory=NodeLoop) as runner:
        try:
            runner.run(_serve(settings, folder))
        except PortInUse as error:
            from penstock.actions.port_owner import describe_owner

            raise CommandError(f"{error}. {describe_owner(error.port)}") from None


def build_overrides(
    file: dict[str, str],
    pairs: dict[str, str],
    *,
    data: Path | None,
    host: str | None,
    port: int | None,
    node_id: int | None,
) -> dict[str, str]:
    """Return the options of the command line: --data and the like override --set, which overrides the file."""
    overrides = dict(pairs)
    given = {**file, **pairs}
    folders = str(data) if data is not None else given.get("log.dirs") or given.get("log.dir") or str(DEFAULT_DATA)
    # Absolute, because DescribeLogDirs reports it to tools that may run in another folder.
    absolute = ",".join(str(Path(folder.strip()).absolute()) for folder in folders.split(","))
    if absolute != given.get("log.dirs"):
        overrides["log.dirs"] = absolute
    if host is not None or port is not None or "listeners" not in given:
        overrides["listeners"] = f"PLAINTEXT://{host or 'localhost'}:{DEFAULT_PORT if port is None else port}"
    if node_id is not None:
        overrides["node.id"] = str(node_id)
    return overrides


def _secure(overrides: dict[str, str], given: dict[str, str]) -> "SecureFolder":
    """Add the options of a secured node; create the certificates and the user if they do not exist."""
    from penstock.actions.secure_folder import LISTENER, SecureFolder, host_names
    from penstock.storage.meta_properties import FILE_NAME

    data = Path(overrides.get("log.dirs") or given["log.dirs"])
    folder = SecureFolder(data)
    listener = overrides.get("listeners", "")
    if not listener.startswith("PLAINTEXT://") or "listeners" in given:
        raise CommandError("--secure sets the listener: use --host and --port, and no 'listeners' option.")
    address = listener.removeprefix("PLAINTEXT://")
    if address.endswith(":0"):
        raise CommandError("--secure needs a fixed port, because clients' properties contain it: use --port.")
    if not folder.exists:
        if (data / FILE_NAME).exists():
            raise CommandError(
                f"The data in {data} was created without --secure. Start with another folder, or secure it step by "
                "step as in docs/guides/security.md."
            )
        host = address.rpartition(":")[0].strip("[]")
        folder.create(hosts=host_names(host), bootstrap=address)
    overrides["listeners"] = f"{LISTENER}://{address}"
    for name, value in folder.broker_options().items():
        if name not in given:
            overrides.setdefault(name, value)
    return folder


async def _serve(settings: "BrokerSettings", folder: "SecureFolder | None" = None) -> None:
    import asyncio

    from penstock.node import Node
    from penstock.ports.real import (
        RealChildren,
        RealClock,
        RealDisk,
        RealDocuments,
        RealEntropy,
        RealNetwork,
        ThreadOffload,
        real_instruments,
    )
    from penstock.ports.real.process import settle_memory
    from penstock.ports.real.service_manager import NotifySocket

    _allow_many_files()
    manager = NotifySocket.from_environment(os.environ)
    stop_requested = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in stop_signals():
        loop.add_signal_handler(number, stop_requested.set)
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
        documents=RealDocuments(),
    )
    stop = asyncio.ensure_future(stop_requested.wait())
    alive = asyncio.ensure_future(_stay_alive(manager))
    try:
        manager.starting("recovering logs and joining the metadata quorum")
        starting = asyncio.ensure_future(node.start())
        await asyncio.wait((starting, stop), return_when=asyncio.FIRST_COMPLETED)
        if not starting.done():
            # Startup waits for the quorum without a limit.
            manager.stopping()
            starting.cancel()
            await asyncio.gather(starting, return_exceptions=True)
            return
        await starting
        settle_memory()
        print(f"ready {node.bootstrap}", flush=True)
        manager.ready(f"listening on {node.bootstrap}")
        if folder is not None:
            print(f"client properties: {folder.client_file}, for Java: {folder.java_client_file}", flush=True)
        broken = asyncio.ensure_future(node.broken.wait())
        await asyncio.wait((broken, stop), return_when=asyncio.FIRST_COMPLETED)
        if broken.done():
            node.abandon()
            raise CommandError(
                "The node stopped because its disk failed. Check its log, repair the disk, then start it again."
            )
        broken.cancel()
        manager.stopping()
        await node.stop()
    finally:
        alive.cancel()
        stop.cancel()
        network.stop()
        disk.stop()


async def _stay_alive(manager: "ServiceManager") -> None:
    """Tell the service manager that the event loop runs, twice in the time that it allows."""
    import asyncio

    while manager.watchdog_s is not None:
        manager.alive()
        await asyncio.sleep(manager.watchdog_s / 2)


def _allow_many_files() -> None:
    """Raise the limit of open files: each partition and each connection uses one."""
    import resource

    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _configure_logging(level: str, style: LogFormat) -> None:
    import logging

    if level not in LEVELS:
        raise CommandError(f"Invalid log level '{level}': expected {', '.join(LEVELS)}.")
    from penstock.cli.log_format import formatter

    handler = logging.StreamHandler()
    handler.setFormatter(formatter(style))
    logging.basicConfig(level=level.upper(), handlers=[handler])
