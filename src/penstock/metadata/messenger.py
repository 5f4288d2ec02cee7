"""Carries the core's messages to the other nodes, and theirs to the core.

A request of the core becomes a question to a peer, whose answer is a message again; a request of a peer waits here for
the core's answer, a fetch perhaps for long. What breaks on the way is told to the core only as far as it is news: a
process that is gone, a fetch that nobody will answer. Goes to `voter_wire.py` and `client/peers.py`. Refuses nothing.
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
from penstock.raft.events import Event, PeerLost, Received, Send, Unanswered
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
"""Fetches wait at the leader, so that nothing else may be behind them."""
OTHERS = "quorum"


class Messenger:
    def __init__(
        self,
        *,
        place: NodeIdentity,
        peers: Peers | None,
        book: VoterRegistry,
        core: Core,
        hear: Callable[[Event], None],
        read: Callable[[int], FileSlice | None],
        timeout_s: float,
    ) -> None:
        self._place = place
        self._peers = peers
        self._book = book
        self._core = core
        self._hear = hear
        self._read = read
        self._timeout_s = timeout_s
        # In the order in which they were begun, so that a simulated end is the same every time.
        self._asking: dict[asyncio.Task[None], None] = {}
        self._waiting: dict[tuple[NodeId, type], deque[asyncio.Future[Any]]] = {}
        self._fetches: dict[NodeId, tuple[int, FetchDone]] = {}
        self._next_fetch_id = 0
        self._closed = False

    # -- out -------------------------------------------------------------------------------

    def send(self, send: Send) -> None:
        """Bring a message on its way: an answer to whoever waits for it, a request to its peer."""
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
            task = asyncio.get_running_loop().create_task(self._ask(send.to, message))
            self._asking[task] = None
            task.add_done_callback(self._forget)

    def _forget(self, task: "asyncio.Task[None]") -> None:
        self._asking.pop(task, None)

    async def _ask(self, to: NodeId, message: Message) -> None:
        from penstock.metadata import voter_wire  # a node that is its own quorum does without the schemas

        assert self._peers is not None, "a quorum of one talks to nobody"
        key, request = voter_wire.write_request(self._place, to, message)
        purpose = FETCHES if isinstance(message, FetchRequest) else OTHERS
        answer: Message | None = None
        try:
            entity = await self._peers.ask(to, key, request, timeout_s=self._timeout_s, purpose=purpose)
            for node, address in voter_wire.endpoints_in(entity):
                self._book.hint(node, address)
            answer = voter_wire.read_answer(message, entity)
        except PeerGone:
            self._hear(PeerLost(to))
        except PeerUnavailable as problem:
            logger.debug("node %d does not answer: %s", to, problem)
        except Corruption as problem:
            logger.warning("an answer of node %d is dropped: %s", to, problem)
        if answer is not None:
            self._hear(Received(to, answer))
        elif isinstance(message, FetchRequest):
            self._hear(Unanswered(message.request_id))

    async def sent(self) -> None:
        """Wait until everything that is on its way has been answered, or never will be."""
        await asyncio.gather(*self._asking, return_exceptions=True)

    # -- in --------------------------------------------------------------------------------

    async def ask_core(self, source: NodeId, request: Message, answer: type[Answer]) -> Answer:
        """Hand a peer's request to the core and return its answer."""
        if self._closed:
            raise NotController
        waiter: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault((source, answer), deque()).append(waiter)
        self._hear(Received(source, request))
        return await waiter

    def hear_fetch(self, source: NodeId, make: Callable[[int], FetchRequest], done: FetchDone) -> None:
        """Hand a peer's fetch to the core; `done` is called with the answer, now or later."""
        self._next_fetch_id += 1
        if self._closed:
            done(self._not_leader(self._next_fetch_id), None)
            return
        before = self._fetches.pop(source, None)
        self._fetches[source] = (self._next_fetch_id, done)
        if before is not None:
            # Its asker has given it up, or it would not ask again.
            before[1](self._not_leader(before[0]), None)
        self._hear(Received(source, make(self._next_fetch_id)))

    def _answer_fetch(self, to: NodeId, response: FetchResponse, records: FileSlice | None) -> None:
        waiting = self._fetches.get(to)
        if waiting is not None and waiting[0] == response.request_id:
            del self._fetches[to]
            waiting[1](response, records)

    def refuse_fetches(self) -> None:
        """This node does not lead any more: whoever waits here for news must look elsewhere."""
        fetches, self._fetches = self._fetches, {}
        for request_id, done in fetches.values():
            done(self._not_leader(request_id), None)

    def _not_leader(self, request_id: int) -> FetchResponse:
        core = self._core
        return FetchResponse(
            epoch=core.epoch,
            leader=core.leader_to_name,
            request_id=request_id,
            error=FetchError.NOT_LEADER,
            high_watermark=core.high_watermark,
        )

    def close(self) -> None:
        """Say no more, and refuse who still asks: a node whose log is offline must not be waited for."""
        self._closed = True
        self.refuse_fetches()
        for task in list(self._asking):
            task.cancel()
        for waiting in self._waiting.values():
            for waiter in waiting:
                if not waiter.done():
                    waiter.set_exception(NotController())
        self._waiting.clear()


def endpoints_of(book: VoterRegistry, node: NodeId | None) -> list[tuple[int, tuple[str, int]]]:
    """Where a node is, in the form that answers name leaders in."""
    address = None if node is None else book.address_of(node)
    return [] if address is None else [(cast(int, node), address)]
