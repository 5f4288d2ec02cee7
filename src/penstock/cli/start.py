"""penstock start: run a broker in the foreground until SIGTERM or SIGINT.

Prints `ready HOST:PORT` once, when clients can connect. The node itself is in node/.
"""

import contextlib
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from penstock.actions.client_properties import read_properties_file
from penstock.cli.arguments import SecureOption, parse_pairs
from penstock.cli.console_child import (
    ConsoleChild,
    check_console_installed,
    choose_console_port,
    why_port_is_unusable,
)
from penstock.cli.errors import CommandError
from penstock.cli.lifetime import StopAtEofOption, stop_at_end_of_input, stop_signals
from penstock.cli.log_format import LogFormat

if TYPE_CHECKING:
    from penstock.config.settings import BrokerSettings
    from penstock.ports.service_manager import ServiceManager

logger = logging.getLogger(__name__)

EXAMPLE = "Example: penstock start --data ./data --port 9092 --set num.partitions=3"
DEFAULT_PORT = 9092
DEFAULT_DATA = "./data"
LEVELS = ("debug", "info", "warning", "error")

MetricsOption = Annotated[
    int | None,
    typer.Option("--metrics", min=0, max=65535, help="Serve /metrics, /health and /ready on this port of 127.0.0.1."),
]
ConsoleOption = Annotated[
    bool, typer.Option("--console", help="Also start the web console, as a process with a low priority.")
]
ConsolePortOption = Annotated[
    int | None,
    typer.Option(
        "--console-port",
        min=1,
        max=65535,
        help="Port of the console on 127.0.0.1.",
        show_default="8080, or a free one if it is in use",
    ),
]


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
    metrics: MetricsOption = None,
    console: ConsoleOption = False,
    console_port: ConsolePortOption = None,
    secure: SecureOption = False,
    cores: Annotated[
        str | None,
        typer.Option(
            "--cores",
            metavar="N|auto",
            help="Run a node on each of N cores, with ids and ports that follow those of the first.",
            show_default="1",
        ),
    ] = None,
    log_level: Annotated[str, typer.Option("--log-level", help=f"Log level: {', '.join(LEVELS)}.")] = "info",
    log_format: Annotated[
        LogFormat | None,
        typer.Option("--log-format", help="Format of log lines.", show_default="text"),
    ] = None,
    stop_at_eof: StopAtEofOption = False,
) -> None:
    """Run a broker in the foreground until SIGTERM, Ctrl-C or the end of its terminal."""
    from penstock.cli.cluster.core_options import parse_cores

    given = parse_pairs(settings or [], example="--set num.partitions=3")
    if cluster_id is not None:
        given["cluster.id"] = cluster_id
    if metrics is not None:
        given["metrics.listener"] = f"http://127.0.0.1:{metrics}"
    if log_format is not None:
        given["log.format"] = log_format.value
    places = Places(data, host, port, node_id)
    if console:
        check_console_installed()
    chosen = (console_port or choose_console_port()) if console else None
    _start(CommandLine(config, given, places, secure, parse_cores(cores), log_level, stop_at_eof, chosen))


class Places(NamedTuple):
    """Options of the command line with a meaning beyond an option of the node."""

    data: Path | None
    host: str | None
    port: int | None
    node_id: int | None


class CommandLine(NamedTuple):
    config: Path | None
    given: dict[str, str]
    places: Places
    secure: bool
    cores: int
    log_level: str
    stop_at_eof: bool
    console_port: int | None = None

    def read_options(self) -> dict[str, str]:
        """Read the file of options and add those of the command line; create a secured node's files if necessary."""
        file = read_properties_file(self.config) if self.config is not None else {}
        overrides = build_overrides(file, self.given, **self.places._asdict())
        if self.secure:
            _secure(overrides, {**file, **self.given}, self.cores)
        return {**file, **overrides}


def _start(line: CommandLine) -> None:
    from penstock.cli.cluster.core_options import check_drained
    from penstock.config.settings import BrokerSettings

    options = line.read_options()
    check_drained(options, line.cores)
    notice = _describe_clients(options) if line.secure else None

    def start_console(bootstrap: str) -> None:
        if line.console_port is None:
            return
        if (reason := why_port_is_unusable(line.console_port)) is not None:
            # Clients depend on the broker, so it runs without its console.
            logger.error(
                "the broker runs without its console: cannot listen on 127.0.0.1:%d; pass another --console-port (%s)",
                line.console_port,
                reason,
            )
            return
        console.start(bootstrap, line.console_port, _client_file(options) if line.secure else None)

    def run_node(settings: "BrokerSettings", core: int | None = None) -> None:
        _configure_logging(line.log_level, LogFormat(settings.text("log.format")), core)
        if line.stop_at_eof or core is not None:
            stop_at_end_of_input()
        _run(settings, notice, start_console if core is None else lambda bootstrap: None)

    with ConsoleChild() as console:
        if line.cores == 1:
            run_node(BrokerSettings.load(overrides=options))
        else:
            from penstock.cli.cluster.cores import Machine, run_cores

            # It shows an error until the first core answers.
            start_console(options["listeners"].partition(",")[0].partition("://")[2])
            run_cores(Machine(line.cores, line.read_options, run_node, notice, line.stop_at_eof))


def _run(settings: "BrokerSettings", notice: str | None, ready: Callable[[str], None]) -> None:
    import asyncio

    from penstock.model.errors import PortInUse
    from penstock.ports.real.loop import NodeLoop

    with asyncio.Runner(loop_factory=NodeLoop) as runner:
        try:
            runner.run(_serve(settings, notice, ready))
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


def _client_file(options: dict[str, str]) -> Path:
    from penstock.actions.secure_folder import SecureFolder

    return SecureFolder(Path(options["log.dirs"])).client_file


def _describe_clients(options: dict[str, str]) -> str:
    from penstock.actions.secure_folder import SecureFolder

    folder = SecureFolder(Path(options["log.dirs"]))
    return f"client properties: {folder.client_file}, for Java: {folder.java_client_file}"


def _secure(overrides: dict[str, str], given: dict[str, str], count: int) -> None:
    """Add the options of a secured node or machine; create the certificates and the user if they do not exist."""
    from penstock.actions.secure_folder import LISTENER, SecureFolder, host_names
    from penstock.cli.cluster.core_options import secure_options
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
    overrides.update(
        secure_options(LISTENER, address, count) if count > 1 else {"listeners": f"{LISTENER}://{address}"}
    )
    for name, value in folder.broker_options().items():
        if name not in given:
            overrides.setdefault(name, value)


async def _serve(settings: "BrokerSettings", notice: str | None, ready: Callable[[str], None]) -> None:
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
    settle_memory()
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
        print(f"ready {node.bootstrap}", flush=True)
        manager.ready(f"listening on {node.bootstrap}")
        if notice is not None:
            print(notice, flush=True)
        ready(node.bootstrap)
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
    """Raise the limit of open files: each connection and each log that is written to uses one."""
    import resource

    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _configure_logging(level: str, style: LogFormat, core: int | None = None) -> None:
    if level not in LEVELS:
        raise CommandError(f"Invalid log level '{level}': expected {', '.join(LEVELS)}.")
    from penstock.cli.log_format import formatter

    handler = logging.StreamHandler()
    handler.setFormatter(formatter(style, core))
    logging.basicConfig(level=level.upper(), handlers=[handler])
