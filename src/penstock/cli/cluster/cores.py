"""penstock start --cores: the supervisor of the nodes of one machine.

Each core is a copy of this process, made after everything is loaded, so that cores start fast and share memory.
They write to the same log, and one further process serves the metrics of all. `cores` in the data folder contains the
lock and the process id of the supervisor, requests to restart a core, and the folders of all cores but the first.
"""

import asyncio
import gc
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from penstock.actions.addresses import parse_address
from penstock.actions.cluster.config_files import NodePlan, new_cluster_id
from penstock.actions.errors import ActionError
from penstock.cli.cluster.core_options import FOLDER, core_options, node_id_of
from penstock.cli.cluster.forked import ForkedProcess, fork
from penstock.cli.cluster.local import running_cluster
from penstock.cli.cluster.supervisor import Child, supervise
from penstock.cli.errors import CommandError
from penstock.cli.lifetime import input_has_ended
from penstock.config.settings import BrokerSettings
from penstock.model.errors import PenstockError
from penstock.ports.real.service_manager import NotifySocket
from penstock.storage.meta_properties import FILE_NAME, parse_properties

NODES_FILE: Final = "nodes.json"
READY: Final = b"ready "
Options = dict[str, str]
RunNode = Callable[[BrokerSettings, int], None]
"""Runs a node until it is stopped; the number is its core."""


@dataclass(frozen=True, slots=True)
class Machine:
    """The machine of a command line."""

    count: int
    read_options: Callable[[], Options]
    """Reads the options of the machine; again for each start of a core, because files may have changed."""
    run_node: RunNode
    notice: str | None = None
    """A line to print after the ready line."""
    stop_at_eof: bool = False


def run_cores(machine: Machine) -> None:
    """Run all cores until a signal."""
    options = machine.read_options()
    own = [core_options(options, core=core, count=machine.count) for core in range(machine.count)]
    settings = [BrokerSettings.load(overrides=each) for each in own]
    addresses = [_advertised(each) for each in settings]
    folder = Path(options["log.dirs"]) / FOLDER
    manager = NotifySocket.from_environment(os.environ)
    manager.starting(f"starting {machine.count} cores")
    cluster_id = options.get("cluster.id") or _cluster_id(Path(options["log.dirs"])) or new_cluster_id()
    with running_cluster(folder), _sockets(options.get("metrics.listener"), machine.count) as sockets:
        nodes = [
            {"node": each.integer("node.id"), "address": address}
            for each, address in zip(settings, addresses, strict=True)
        ]
        (folder / NODES_FILE).write_text(json.dumps(nodes) + "\n", encoding="utf-8")
        _load()
        children = _children(machine, cluster_id, sockets, options.get("metrics.listener"))
        supervise(
            folder,
            children,
            ready=[f"ready {','.join(addresses)}", *([machine.notice] if machine.notice else ())],
            restart=True,
            ready_s_max=None,
            manager=manager,
            has_ended=input_has_ended if machine.stop_at_eof else lambda: False,
        )


def read_nodes(data: Path) -> list[NodePlan]:
    """Return the cores that were last started in a data folder; none if it has always been that of a single node."""
    file = data / FOLDER / NODES_FILE
    if not file.exists():
        return []
    nodes = json.loads(file.read_text(encoding="utf-8"))
    return [NodePlan(each["node"], *parse_address(each["address"]), None, file, data) for each in nodes]


def _advertised(settings: BrokerSettings) -> str:
    """Return the address at which clients reach a core."""
    listener = (settings["advertised.listeners"] or settings["listeners"])[0]
    return str(listener).partition("://")[2]


def _cluster_id(data: Path) -> str | None:
    """Return the cluster id of a data folder that is in use."""
    file = data / FILE_NAME
    return parse_properties(file.read_bytes()).get("cluster.id") if file.exists() else None


@contextmanager
def _sockets(metrics_listener: str | None, count: int) -> Iterator[dict[int, str]]:
    """Yield a path for the endpoint of each core, which only this user can reach; none without an endpoint."""
    if not metrics_listener:
        yield {}
        return
    with tempfile.TemporaryDirectory(prefix="penstock-") as folder:
        yield {core: f"{folder}/{core}" for core in range(count)}


def _load() -> None:
    """Load what a node needs, and keep the garbage collector from copying its memory."""
    import penstock.node
    import penstock.ports.real  # noqa: F401

    gc.collect()
    gc.freeze()


def _children(
    machine: Machine, cluster_id: str, sockets: Mapping[int, str], metrics_listener: str | None
) -> list[Child]:
    # All copies read from this pipe, whose other end only this process has: it closes if this process is killed.
    end_of_life, life = os.pipe()
    children: list[ForkedChild] = []

    def run_core(core: int) -> None:
        own = core_options(machine.read_options(), core=core, count=machine.count)
        own.setdefault("cluster.id", cluster_id)
        if core in sockets:
            own["metrics.listener"] = f"unix:{sockets[core]}"
        machine.run_node(BrokerSettings.load(overrides=own), core)

    for core in range(machine.count):
        node_id = node_id_of(machine.read_options(), core)
        children.append(ForkedChild(f"core {core}", node_id, lambda core=core: run_core(core), (end_of_life, life)))  # type: ignore[misc]
    if metrics_listener:
        children.append(
            ForkedChild(
                "metrics endpoint", None, lambda: _serve_metrics(metrics_listener, sockets), (end_of_life, life)
            )
        )
    for child in children:
        child.siblings = children
    return list(children)


class ForkedChild(Child):
    """A child that is a copy of this process."""

    def __init__(self, name: str, node_id: int | None, run: Callable[[], None], life: tuple[int, int]) -> None:
        super().__init__(name, node_id, "this one")
        self._run = run
        self._end_of_life, self._life = life
        self._output: int | None = None
        self._is_ready = False
        self.siblings: Sequence[ForkedChild] = ()

    def launch(self) -> ForkedProcess:
        if self._output is not None:
            os.close(self._output)
        self._is_ready = False
        self._output, output = os.pipe()
        os.set_blocking(self._output, False)
        inherited = [child._output for child in self.siblings if child._output is not None]
        process = fork(self._guarded, stdin=self._end_of_life, stdout=output, close=[self._life, output, *inherited])
        os.close(output)
        return process

    def _guarded(self) -> int:
        try:
            self._run()
        except (CommandError, ActionError, PenstockError) as error:
            print(f"penstock: {self.name}: {' '.join(str(error).split())}", file=sys.stderr)
            return 1
        return 0

    @property
    def is_ready(self) -> bool:
        if not self._is_ready and self._output is not None:
            with suppress(BlockingIOError):
                self._is_ready = READY in os.read(self._output, 4096)
        return self._is_ready

    def last_words(self) -> str:
        return "see its last lines above."


def _serve_metrics(listener: str, sockets: Mapping[int, str]) -> None:
    """Serve the endpoint of the machine until this process is stopped."""
    from penstock.cli.cluster.machine_endpoint import MachineEndpoint
    from penstock.cli.lifetime import stop_at_end_of_input, stop_signals
    from penstock.ports.real.http import RealHttp
    from penstock.server.monitoring import UNIX, parse_metrics_listener

    host, port = parse_metrics_listener(listener)
    if port == 0 and not listener.startswith(UNIX):
        raise CommandError("The endpoint of a machine with several cores needs a fixed port: pass one with --metrics.")

    async def serve() -> None:
        stop = asyncio.Event()
        for number in stop_signals():
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        try:
            endpoint = await RealHttp().listen(host, port, MachineEndpoint(sockets).answer)
        except OSError as error:
            raise CommandError(f"Cannot serve metrics at {listener}: {error.strerror or error}.") from None
        print("ready", listener, flush=True)
        await stop.wait()
        await endpoint.close()

    stop_at_end_of_input()
    asyncio.run(serve())
