"""The exchange of messages between the Raft core and the other nodes.

A request of the core is sent to a peer, whose response is a message for the core; a request of a peer waits here for
the core's response, a fetch perhaps for long. Failures are reported to the core only if they matter: an exited
process, or a fetch that will not be answered. Calls `voter_wire.py` and `client/peers.py`. Refuses nothing.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar, cast

from penstock.client.interfaces import PeerGone, Peers, PeerUnavailable
from penstock.metadata.identity import NodeIdentity
from penstock.metadata.voters import VoterRegistry
from penstock.model.errors import Corruption, NotController
from penstock.model.ids import NodeId
from penstock.ports.network import FileSlice
from penstock.raft.core import Core
from penstock.raft.events import Event, FetchFailed, PeerLost, Received, Send
from penstock.raft.messages import (
    BeginQuorumEpochResponse,
    FetchError,
    FetchRequest,
    FetchResponse,
    Message,
    VoteResponse,
)

logger = logging.getLogger(__name__)

FetchDone = Callable[[FetchResponse, FileSlice | None], None]
Answer = TypeVar("Answer", VoteResponse, BeginQuorumEpochResponse)
FETCHES = "quorum-fetch"
"""The purpose of fetches, which wait at the leader and must not delay other requests on their connection."""
OTHERS = "quorum"


class Messenger:
    def __init__(
        self,
        *,
        identity: NodeIdentity,
        peers: Peers | None,
        voter_registry: VoterRegistry,
        core: Core,
        submit: Callable[[Event], None],
        read: Callable[[int], FileSlice | None],
        timeout_s: float,
    ) -> None:
        self._identity = identity
        self._peers = peers
        self._voter_registry = voter_registry
        self._core = core
        self._submit = submit
        self._read = read
        self._timeout_s = timeout_s
        # In the order of their start, so that a simulated run is deterministic.
        self._requests: dict[asyncio.Task[None], None] = {}
        self._waiting: dict[tuple[NodeId, type], deque[asyncio.Future[Any]]] = {}
        self._fetches: dict[NodeId, tuple[int, FetchDone]] = {}
        self._next_fetch_id = 0
        self._closed = False

    # -- outgoing --------------------------------------------------------------------------

    def send(self, send: Send) -> None:
        """Send a message: a response to the waiting peer, a request over the network."""
        message = send.message
        if isinstance(message, FetchResponse):
            self._answer_fetch(send.to, message, None if send.read_from is None else self._read(send.read_from))
        elif isinstance(message, VoteResponse | BeginQuorumEpochResponse):
            waiting = self._waiting.get((send.to, type(message)))
            if waiting:
                answer = waiting.popleft()
                if not answer.done():
                    answer.set_result(message)
        else:
            task = asyncio.get_running_loop().create_task(self._request(send.to, message))
            self._requests[task] = None
            task.add_done_callback(self._request_done)

    def _request_done(self, task: "asyncio.Task[None]") -> None:
        self._requests.pop(task, None)

    async def _request(self, to: NodeId, message: Message) -> None:
        from penstock.metadata import voter_wire  # a single-node quorum does not need the schemas

        assert self._peers is not None, "a single-node quorum sends no messages"
        key, request = voter_wire.write_request(self._identity, to, message)
        purpose = FETCHES if isinstance(message, FetchRequest) else OTHERS
        answer: Message | None = None
        try:
            entity = await self._peers.ask(to, key, request, timeout_s=self._timeout_s, purpose=purpose)
            for node, address in voter_wire.endpoints_in(entity):
                self._voter_registry.hint(node, address)
            answer = voter_wire.read_answer(message, entity)
        except PeerGone:
            self._submit(PeerLost(to))
        except PeerUnavailable as problem:
            logger.debug("cannot reach node %d: %s", to, problem)
        except Corruption as problem:
            logger.warning("dropped a response of node %d: %s", to, problem)
        if answer is not None:
            self._submit(Received(to, answer))
        elif isinstance(message, FetchRequest):
            self._submit(FetchFailed(message.request_id))

    async def sent(self) -> None:
        """Wait until all requests in flight are answered or have failed."""
        await asyncio.gather(*self._requests, return_exceptions=True)

    # -- incoming --------------------------------------------------------------------------

    async def ask_core(self, source: NodeId, request: Message, answer: type[Answer]) -> Answer:
        """Submit a peer's request to the core and return its response."""
        if self._closed:
            raise NotController
        waiter: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault((source, answer), deque()).append(waiter)
        self._submit(Received(source, request))
        return await waiter

    def hear_fetch(self, source: NodeId, make: Callable[[int], FetchRequest], done: FetchDone) -> None:
        """Submit a peer's fetch to the core; `done` is called with the response, now or later."""
        self._next_fetch_id += 1
        if self._closed:
            done(self._not_leader(self._next_fetch_id), None)
            return
        before = self._fetches.pop(source, None)
        self._fetches[source] = (self._next_fetch_id, done)
        if before is not None:
            # The peer has abandoned its previous fetch, since it sends another one.
            before[1](self._not_leader(before[0]), None)
        self._submit(Received(source, make(self._next_fetch_id)))

    def _answer_fetch(self, to: NodeId, response: FetchResponse, records: FileSlice | None) -> None:
        waiting = self._fetches.get(to)
        if waiting is not None and waiting[0] == response.request_id:
            del self._fetches[to]
            waiting[1](response, records)

    def refuse_fetches(self) -> None:
        """Fail all waiting fetches, because this node no longer leads."""
        fetches, self._fetches = self._fetches, {}
        for request_id, done in fetches.values():
            done(self._not_leader(request_id), None)

    def _not_leader(self, request_id: int) -> FetchResponse:
        core = self._core
        return FetchResponse(
            epoch=core.epoch,
            leader=core.advertised_leader,
            request_id=request_id,
            error=FetchError.NOT_LEADER,
            high_watermark=core.high_watermark,
        )

    def close(self) -> None:
        """Send nothing more and refuse requests: peers must not wait for a node whose log is offline."""
        self._closed = True
        self.refuse_fetches()
        for task in list(self._requests):
            task.cancel()
        for waiting in self._waiting.values():
            for waiter in waiting:
                if not waiter.done():
                    waiter.set_exception(NotController())
        self._waiting.clear()


def endpoints_of(voter_registry: VoterRegistry, node: NodeId | None) -> list[tuple[int, tuple[str, int]]]:
    """Return the address of a node in the form that responses use for leaders."""
    address = None if node is None else voter_registry.address_of(node)
    return [] if address is None else [(cast(int, node), address)]
