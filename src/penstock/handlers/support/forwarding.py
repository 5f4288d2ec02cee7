"""Brings a client's request to the active controller, when that is another node, and its answer back.

The frame travels whole in an envelope (KIP-590), so the controller sees the client's own version and id, and the
answer comes back ready to send. Afterwards this node waits a little until it has seen what the controller had
committed: a client finds here what it has just made. Goes to client/channel.py. Without a controller the local
handler answers: NOT_CONTROLLER.
"""

import asyncio
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, Final

from penstock.client.channel import ControllerChannel, pause
from penstock.client.interfaces import PeerUnavailable
from penstock.metadata.image import BROKER_LOGGER
from penstock.wire.api import APIS, ApiKey

if TYPE_CHECKING:
    from penstock.handlers.support.context import Request
    from penstock.metadata.quorum import Quorum
    from penstock.ports.clock import Clock

RELAY_S_MAX: Final = 30.0
CATCH_UP_S_MAX: Final = 1.0
LOOK_AGAIN_S: Final = 0.002
LEADER_LOOK_S: Final = 0.1
"""How often who waits for an answer looks whether it will come from there."""
CONNECTIONS: Final = 4
"""Answers come in order on each; one that takes long should not keep all the others."""


class Relay:
    def __init__(self, *, quorum: "Quorum", clock: "Clock") -> None:
        self._quorum = quorum
        self._clock = clock
        self._turn = 0
        self._channel = (
            None
            if quorum.peers is None
            else ControllerChannel(
                node_id=quorum.node_id,
                peers=quorum.peers,
                clock=clock,
                leader=self._other_leader,
                local=_nobody_here,
            )
        )

    def _other_leader(self) -> "Any":
        """Between two looks this node may have become it: that is seen while the answer is awaited."""
        leader = self._quorum.leader
        return None if leader == self._quorum.node_id else leader

    @property
    def is_needed(self) -> bool:
        """Whether the active controller is another node."""
        return self._channel is not None and not self._quorum.is_active

    async def forward(self, frame: bytes, api_key: int, client_address: bytes) -> bytes | None:
        """The answer's frame, without its size; None if there is no controller, or it is this node by now."""
        from kio.schema.envelope.v0.request import EnvelopeRequest  # a node alone needs none

        envelope = EnvelopeRequest(request_data=frame, request_principal=None, client_host_address=client_address)
        try:
            answer = await self.ask(ApiKey.ENVELOPE, envelope, changes=APIS[api_key].changes_metadata)
        except PeerUnavailable:
            return None
        data: bytes | None = answer.response_data
        return data if not answer.error_code else None

    async def ask(self, api_key: int, request: Any, *, changes: bool = True, timeout_s: float = RELAY_S_MAX) -> Any:
        """Ask the active controller elsewhere; after a change, return when this node has seen it too."""
        assert self._channel is not None, "a node alone is its own controller"
        self._turn = (self._turn + 1) % CONNECTIONS
        deadline = self._clock.monotonic() + timeout_s
        answer = None
        while answer is None:
            answer = await self._ask_while_it_leads(api_key, request, deadline - self._clock.monotonic())
        if changes:
            await self._catch_up()
        return answer

    async def _ask_while_it_leads(self, api_key: int, request: Any, left_s: float) -> Any:
        """The answer; None if the controller is another node since: the one that was asked may be held still."""
        assert self._channel is not None
        purpose = f"relay-{self._turn}"
        asked = self._quorum.leader
        asking = asyncio.ensure_future(
            self._channel.ask(api_key, request, timeout_s=left_s, attempt_s_max=left_s, purpose=purpose)
        )
        try:
            while True:
                looking = asyncio.ensure_future(pause(self._clock, LEADER_LOOK_S))
                await asyncio.wait((asking, looking), return_when=asyncio.FIRST_COMPLETED)
                looking.cancel()
                if asking.done():
                    return asking.result()
                if self._quorum.is_active:
                    raise PeerUnavailable("this node has become the active controller")
                leader = self._quorum.leader
                if asked is None:
                    asked = leader
                elif leader not in (None, asked):
                    return None
        finally:
            asking.cancel()

    async def _catch_up(self) -> None:
        """Wait until all that the controller knows to be committed is applied here; bounded, for it is a courtesy."""
        deadline = self._clock.monotonic() + CATCH_UP_S_MAX
        target = await self._committed()
        while target is not None and self._quorum.image.offset + 1 < target:
            if self._clock.monotonic() >= deadline:
                return
            await pause(self._clock, LOOK_AGAIN_S)

    async def _committed(self) -> int | None:
        from kio.schema.describe_quorum.v2.request import DescribeQuorumRequest, PartitionData, TopicData
        from kio.static.primitive import i32

        from penstock.metadata.voter_wire import METADATA_TOPIC

        assert self._channel is not None
        topic = TopicData(topic_name=METADATA_TOPIC, partitions=(PartitionData(partition_index=i32(0)),))
        request = DescribeQuorumRequest(topics=(topic,))
        try:
            answer = await self._channel.ask(
                ApiKey.DESCRIBE_QUORUM, request, timeout_s=CATCH_UP_S_MAX, purpose="relay-look"
            )
        except PeerUnavailable:
            return None
        return int(answer.topics[0].partitions[0].high_watermark)


def is_for_this_node(request: "Request") -> bool:
    """Loggers are each node's own: they are changed where the client asks."""
    if request.header.api_key != ApiKey.INCREMENTAL_ALTER_CONFIGS:
        return False
    return any(resource.resource_type == BROKER_LOGGER for resource in request.body.resources)


def address_bytes(host: str) -> bytes:
    """An address as Java's InetAddress gives its bytes; none for what is no address."""
    try:
        return ip_address(host).packed
    except ValueError:
        return b""


async def _nobody_here(api_key: int, request: Any) -> Any:
    raise AssertionError("what this node can answer itself is not relayed")
