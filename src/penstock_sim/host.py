"""A simulated machine: its disk, its clock, and the successive processes of its node.

Each start is a new process: a new owner on the loop, new ports, the same disk. `kill` loses the memory of the process,
`lose_power` also unsynced data. A failed start leaves the machine without a node; the caller may retry.
"""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Callable, Mapping
from random import Random
from typing import Final

from penstock.config.settings import BrokerSettings
from penstock.model.errors import StartupError
from penstock.node import Node
from penstock.ports.disk import File
from penstock_sim.clock import SimClock, SimEntropy
from penstock_sim.disk import Crashed, SimDisk, SimFile
from penstock_sim.disk_entries import FileBytes, Folder
from penstock_sim.loop import Owner, SimLoop
from penstock_sim.network import Hub, NetworkPort
from penstock_sim.trace import Trace

DATA: Final = "/data"
PORT: Final = 9092
STOP_S_MAX: Final = 60.0


class HostDisk(SimDisk):
    """The faulty disk, with syncs that take time and can fail."""

    def __init__(self, seed: str, loop: SimLoop) -> None:
        super().__init__(seed, syncs_at_once=False)
        self._loop = loop
        self._sync_free_at: dict[str, float] = {}
        self.owner = loop.world
        self.crash_at: int | None = None
        """The disk call in which the process ends."""
        self.power_fails_at_crash = False
        """Whether the power fails with that call."""
        self.on_crash_point: Callable[[], None] = lambda: None
        self.sync_s = 0.002
        self.open_s = 0.0
        """How long the process waits while it opens a file."""
        self.syncs_fail = False

    def call(self, kind: str, path: str) -> None:
        if self._dead:
            raise Crashed(f"{kind} {path} after the crash")
        self.calls += 1
        if self.calls == self.crash_at:
            self._dead = True
            self.on_crash_point()
            raise Crashed(f"stopped at call {self.calls}: {kind} {path}")
        if self.failing and not path.endswith(".lock"):
            code = self.failing.get(kind) or (self.failing.get("read") if kind == "send" else None)
            if code:
                raise OSError(code, os.strerror(code), path)
        if kind == "open" and self.open_s:
            self.owner.block(self._loop.now, self.open_s)

    def sync_later(self, file: File, done: Callable[[OSError | None], None]) -> None:
        assert isinstance(file, SimFile), "a file of this disk"
        self._finish_later(file.path, file.bytes, done)

    def sync_folder_later(self, path: str, done: Callable[[OSError | None], None]) -> None:
        self._finish_later(path, self._folder(path), done)

    def _finish_later(self, path: str, content: FileBytes | Folder, done: Callable[[OSError | None], None]) -> None:
        delay = self.sync_s * (0.2 + self.random.random() * 1.6)
        at = max(self._sync_free_at.get(path, 0.0), self._loop.now + delay)
        self._sync_free_at[path] = at
        self._loop.as_owner_at(self.owner, at, self._finish, path, content, content.count(), done)

    def _finish(
        self, path: str, content: FileBytes | Folder, count: int, done: Callable[[OSError | None], None]
    ) -> None:
        if self._dead:
            return
        if self.syncs_fail:
            content.drop_pending()
            done(OSError(errno.EIO, os.strerror(errno.EIO), path))
            return
        content.sync(count)
        done(None)

    def sync_bytes(self, file: SimFile, count: int) -> None:
        if self.syncs_fail:
            file.bytes.drop_pending()
            raise OSError(errno.EIO, os.strerror(errno.EIO), file.path)
        super().sync_bytes(file, count)

    def sync_volume(self, path: str) -> bool:
        if self.syncs_fail:
            self.failing["sync"] = errno.EIO
        try:
            return super().sync_volume(path)
        finally:
            if self.syncs_fail:
                del self.failing["sync"]

    def kill(self) -> None:
        """Simulate the end of the process; its writes are still in the page cache."""
        self._dead = False
        self.read_well()
        self.crash_at = None
        self._locked.clear()
        self._sync_free_at.clear()

    def files(self) -> list[str]:
        """Return the paths of all files."""
        return sorted(self._walk("/", self._root))

    def _walk(self, path: str, folder: object) -> list[str]:
        found: list[str] = []
        for name, entry in folder.names.items():  # type: ignore[attr-defined]
            full = f"{path.rstrip('/')}/{name}"
            found.extend(self._walk(full, entry) if hasattr(entry, "names") else [full])
        return found

    def content_of(self, path: str) -> bytes:
        """Return the content of a file, without counting as a disk call of the node."""
        return bytes(self._file(path).content)

    def size_of(self, path: str) -> int:
        return len(self._file(path).content)

    def used(self) -> int:
        return sum(self.size_of(path) for path in self.files())


class Host:
    def __init__(
        self, *, name: str, node_id: int, seed: str, loop: SimLoop, hub: Hub, trace: Trace, settings: Mapping[str, str]
    ) -> None:
        self.name = name
        self.node_id = node_id
        self._seed = seed
        self._loop = loop
        self._hub = hub
        self._trace = trace
        self._settings = dict(settings)
        self.disk = HostDisk(f"{seed}:{name}", loop)
        self.disk.on_crash_point = self._crash_point
        self.random = Random(f"{seed}:{name}:host")
        self.clock_rate = 1.0
        self.skew_ms = 0
        self.starts = 0
        self.owner = loop.world
        self.node: Node | None = None
        self.clock: SimClock | None = None
        self.state = "down"
        """down, starting, up, stopping"""
        self.last_problem: BaseException | None = None
        self.step_cost = 0.0
        self.complaints: list[str] = []
        self.may_lose = False
        """Whether this is the machine whose disk decays and loses files."""
        self.on_up: Callable[[Host], None] = lambda host: None

    # -- starting --------------------------------------------------------------------------

    def start(self) -> None:
        """Start a process. `state` shows the result."""
        assert self.state == "down", f"{self.name} is {self.state}"
        self.starts += 1
        self._hub.without_power.discard(self.name)
        self._hub.wake_stalled()
        owner = self.owner = self._loop.owner(self.name)
        owner.step_cost = self.step_cost
        self.disk.owner = owner
        self.clock = SimClock(self._loop, owner, rate=self.clock_rate, skew_ms=self.skew_ms)
        self.node = Node(
            BrokerSettings.load(overrides=self._settings),
            clock=self.clock,
            entropy=SimEntropy(f"{self._seed}:{self.name}:{self.starts}"),
            disk=self.disk,
            network=NetworkPort(self._hub, owner, self.name),
        )
        self.state = "starting"
        self._trace.event(self.name, "start", self.starts)
        self._loop.spawn(owner, self._run(self.node, owner))

    async def _run(self, node: Node, owner: Owner) -> None:
        try:
            await node.start()
        except Crashed:
            return
        except Exception as problem:
            if owner.alive:
                self._trace.event(self.name, "start failed", problem)
                if not isinstance(problem, StartupError):
                    self.complaints.append(f"inv_52: {self.name} did not explain why it could not start: {problem!r}")
                self.last_problem = problem
                self._end(power_lost=False)
            return
        if owner.alive:
            self.state = "up"
            self.last_problem = None
            self._trace.event(self.name, "up")
            self.on_up(self)

    # -- ending ----------------------------------------------------------------------------

    def _crash_point(self) -> None:
        """End the process in the middle of a disk call, possibly with the power."""
        self.owner.die()
        self._loop.as_owner(self._loop.world, self.lose_power if self.disk.power_fails_at_crash else self.kill)

    def kill(self) -> None:
        if self.state != "down":
            self._trace.fault("kill", self.name)
            self._end(power_lost=False)

    def lose_power(self, kept: float | None = None) -> None:
        """Cut the power; the disk keeps a random part of the unsynced data."""
        self._trace.fault("power loss", self.name)
        if self.state != "down":
            self._end(power_lost=True)
        self._hub.without_power.add(self.name)
        failing, capacity = dict(self.disk.failing), self.disk.capacity
        self.disk.crash(self.random, kept=kept)
        self.disk.failing, self.disk.capacity = failing, capacity

    def _end(self, *, power_lost: bool) -> None:
        self.owner.die()
        self._hub.process_ended(self.owner, power_lost=power_lost)
        self.disk.kill()
        self.state = "down"
        self.node = None

    async def stop(self) -> None:
        """Stop as on SIGTERM; kill the process if that takes too long."""
        if self.state != "up" or self.node is None:
            self.kill()
            return
        self._trace.fault("clean stop", self.name)
        self.state = "stopping"
        owner = self.owner
        stopped = self._loop.create_future()
        self._loop.spawn(owner, self._stop(self.node, stopped))
        timer = self._loop.call_later(STOP_S_MAX, self._loop.settle, stopped, False)
        try:
            if not await stopped:
                self._trace.event(self.name, "stop takes too long")
        finally:
            # The waiting task may be cancelled; the process ends anyway.
            timer.cancel()
            if self.owner is owner and owner.alive:
                self._end(power_lost=False)

    async def _stop(self, node: Node, stopped: asyncio.Future[bool]) -> None:
        try:
            await node.stop()
        except Crashed:
            return
        except Exception as problem:
            self.complaints.append(f"inv_52: {self.name} failed to stop: {problem!r}")
        # Report to the world, which waits for it.
        self._loop.as_owner(self._loop.world, self._loop.settle, stopped, True)

    @property
    def is_broken(self) -> bool:
        """Return whether the disk has failed permanently: only a new process can continue."""
        context = None if self.node is None else self.node._context
        return context is not None and (context.store.failure is not None or context.quorum._failure is not None)

    @property
    def is_up(self) -> bool:
        return self.state == "up"

    @property
    def address(self) -> tuple[str, int]:
        return self.name, PORT
