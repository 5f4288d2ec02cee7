"""Tests of the simulated network: order, blocked links, resets, and scrambled frames."""

import asyncio
from random import Random

from penstock.ports.network import Connection
from penstock_sim.loop import SimLoop
from penstock_sim.network import Hub, NetworkPort
from penstock_sim.trace import Trace


class RecordingSession:
    def __init__(self) -> None:
        self.frames: list[bytes] = []
        self.kept: list[memoryview] = []
        self.losses: list[Exception | None] = []

    def frame(self, frame: memoryview) -> None:
        self.frames.append(bytes(frame))
        self.kept.append(frame)

    def lost(self, error: Exception | None) -> None:
        self.losses.append(error)


class Network:
    """A connected server and client."""

    def __init__(self) -> None:
        self.loop = SimLoop(Random(1))  # type: ignore[abstract]
        self.hub = Hub(self.loop, Trace(lambda: self.loop.now), Random(2))
        self.server, self.client = self.loop.owner("server"), self.loop.owner("client")
        self.near, self.far = RecordingSession(), RecordingSession()
        self.connection: Connection | None = None
        self.refusal: OSError | None = None
        listener = NetworkPort(self.hub, self.server, "server").listen("server", 1)
        listener.serve(lambda connection: self.far)

    def connect(self) -> None:
        NetworkPort(self.hub, self.client, "client").connect("server", 1, self._opened)

    def _opened(self, outcome: Connection | OSError) -> RecordingSession | None:
        if isinstance(outcome, OSError):
            self.refusal = outcome
            return None
        self.connection = outcome
        return self.near

    def say(self, *bodies: bytes) -> None:
        assert self.connection is not None
        for body in bodies:
            self.connection.send([len(body).to_bytes(4, "big"), body])


def test_frames_arrive_in_order_and_are_scrambled_afterwards() -> None:
    stage = Network()

    async def world() -> None:
        stage.connect()
        await asyncio.sleep(1)
        stage.say(b"one", b"two", b"three")
        await asyncio.sleep(1)

    stage.loop.run(world())
    assert stage.far.frames == [b"one", b"two", b"three"]
    assert all(bytes(kept) not in stage.far.frames for kept in stage.far.kept)


def test_a_blocked_link_delivers_nothing_until_it_opens() -> None:
    stage = Network()

    async def world() -> None:
        stage.connect()
        await asyncio.sleep(1)
        stage.hub.set_blocked({("client", "server")})
        stage.say(b"late")
        await asyncio.sleep(100)
        assert stage.far.frames == [] and stage.near.losses == []
        stage.hub.set_blocked(set())
        await asyncio.sleep(1)

    stage.loop.run(world())
    assert stage.far.frames == [b"late"]


def test_a_killed_process_resets_and_a_machine_without_power_is_silent() -> None:
    for power_lost in (False, True):
        stage = Network()

        async def world(stage: Network = stage, power_lost: bool = power_lost) -> None:
            stage.connect()
            await asyncio.sleep(1)
            stage.server.die()
            if power_lost:
                stage.hub.without_power.add("server")
            stage.hub.process_ended(stage.server, power_lost=power_lost)
            await asyncio.sleep(30)

        stage.loop.run(world())
        assert len(stage.near.losses) == (0 if power_lost else 1)


def test_a_closed_port_differs_from_a_missing_response() -> None:
    for blocked in (False, True):
        stage = Network()

        async def world(stage: Network = stage, blocked: bool = blocked) -> None:
            stage.hub.process_ended(stage.server, power_lost=False)
            if blocked:
                stage.hub.set_blocked({("client", "server")})
            stage.connect()
            await asyncio.sleep(30)

        stage.loop.run(world())
        assert isinstance(stage.refusal, TimeoutError if blocked else ConnectionRefusedError)
