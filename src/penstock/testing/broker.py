"""A broker inside the test's process.

`with Broker() as broker:` runs it on a separate thread and event loop, for blocking clients. `async with Broker() as
broker:` runs it on the current event loop. Calls node.py.
"""

import asyncio
import tempfile
import threading
from collections.abc import Coroutine, Mapping
from concurrent.futures import Future
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from penstock.testing.defaults import DEFAULTS
from penstock.testing.ports import ReservedPort

if TYPE_CHECKING:
    from penstock.node import Node

STOP_TIMEOUT_S = 120.0


class Broker:
    """One node on a free port. Settings have their Kafka names. New groups start without a delay.

    Port and data survive `restart`. A directory given as `data` is kept at the end; otherwise a temporary directory is
    created and removed. With `secure`, clients need TLS and the user in `client_properties`.
    """

    def __init__(
        self,
        settings: Mapping[str, str] | None = None,
        *,
        data: str | Path | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
        secure: bool = False,
    ) -> None:
        self.settings: dict[str, str] = {**DEFAULTS, **(settings or {})}
        self.host = host
        self.port = port
        self._data = Path(data) if data is not None else None
        self._is_secure = secure
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        self._reserved: ReservedPort | None = None
        self._node: Node | None = None
        self._ports = ExitStack()
        self._thread: _LoopThread | None = None

    @property
    def data(self) -> Path:
        """Return the data directory."""
        if self._data is None:
            self._temporary = tempfile.TemporaryDirectory(prefix="penstock-", ignore_cleanup_errors=True)
            self._data = Path(self._temporary.name)
        return self._data

    @property
    def bootstrap(self) -> str:
        """Return the bootstrap address, HOST:PORT."""
        return f"{self.host}:{self.port}"

    @property
    def client_properties(self) -> dict[str, str]:
        """Return the settings of a client, under the names of librdkafka."""
        if not self._is_secure:
            return {"bootstrap.servers": self.bootstrap}
        from penstock.actions.secure_folder import SecureFolder

        return SecureFolder(self.data).client_properties()

    @property
    def node(self) -> "Node":
        """Return the running node, for tests that inspect it."""
        assert self._node is not None, "the broker is not running"
        return self._node

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self._clean_up()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.stop()
        finally:
            self._clean_up()

    async def __aenter__(self) -> Self:
        try:
            await self.start_here()
        except BaseException:
            self._clean_up()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self.stop_here()
        finally:
            self._clean_up()

    def start(self) -> None:
        """Start on a thread; return when clients can connect."""
        assert self._thread is None, "the broker is running already"
        thread = _LoopThread()
        try:
            thread.call(self.start_here())
        except BaseException:
            thread.end()
            raise
        self._thread = thread

    def stop(self) -> None:
        """Shut down cleanly. Do nothing if it is not running."""
        thread, self._thread = self._thread, None
        if thread is None:
            return
        try:
            thread.call(self.stop_here())
        finally:
            thread.end()

    def restart(self) -> None:
        """Shut down cleanly and start again with the same port and data."""
        self.stop()
        self.start()

    async def start_here(self) -> None:
        """Start on the running event loop."""
        from penstock.config.settings import BrokerSettings
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

        if self.port == 0:
            self._reserved = ReservedPort(self.host)
            self.port = self._reserved.number
        overrides = {
            "log.dirs": str(self.data),
            "listeners": f"{'SASL_SSL' if self._is_secure else 'PLAINTEXT'}://{self.host}:{self.port}",
            **(self._secure_options() if self._is_secure else {}),
            # Many brokers may run at the same time, or leave temporary directories.
            "log.reserve.bytes": "0",
            **self.settings,
        }
        settings = BrokerSettings.load(overrides=overrides)
        with ExitStack() as ports:
            disk, network = RealDisk(), RealNetwork()
            ports.callback(disk.stop)
            ports.callback(network.stop)
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
            await node.start()
            self._ports = ports.pop_all()
        self._node = node

    def _secure_options(self) -> dict[str, str]:
        from penstock.actions.secure_folder import SecureFolder, host_names

        folder = SecureFolder(self.data)
        if not folder.exists:
            folder.create(hosts=host_names(self.host), bootstrap=self.bootstrap)
        return folder.broker_options()

    async def stop_here(self) -> None:
        """Shut down on the event loop that it was started on."""
        node, self._node = self._node, None
        if node is not None:
            with self._ports:
                await node.stop()

    async def restart_here(self) -> None:
        """Shut down and start again on the running event loop."""
        await self.stop_here()
        await self.start_here()

    def _clean_up(self) -> None:
        if self._reserved is not None:
            self._reserved.release()
            self._reserved = None
        if self._temporary is not None:
            self._temporary.cleanup()
            self._temporary = None
            self._data = None


class _LoopThread:
    """An event loop on a separate thread."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="penstock-broker", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    def call(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine on the thread's event loop and wait for it."""
        future: Future[None] = asyncio.run_coroutine_threadsafe(work, self._loop)
        future.result(timeout=STOP_TIMEOUT_S)

    def end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(STOP_TIMEOUT_S)
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.close()
