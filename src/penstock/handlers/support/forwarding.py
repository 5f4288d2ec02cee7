"""Forwarding of clients' requests to the active controller on another node.

The whole frame is sent in an envelope (KIP-590), so that the controller sees the client's version and id, and its
response can be sent unchanged. Afterwards this node waits a little until it has applied the controller's committed
changes, so that a client finds on this node what it has just created. Goes to client/channel.py. Without a controller
the local handler answers: NOT_CONTROLLER.
"""

import asyncio
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, Final

from penstock.client.channel import ControllerChannel, pause
from penstock.client.interfaces import PeerUnavailable
from penstock.metadata.image import BROKER_LOGGER
from penstock.security.principal import ANONYMOUS, Principal, encode_principal
from penstock.wire.api import APIS, ApiKey

if TYPE_CHECKING:
    from penstock.handlers.support.context import Request
    from penstock.metadata.quorum import Quorum
    from penstock.ports.clock import Clock

RELAY_S_MAX: Final = 30.0
CATCH_UP_S_MAX: Final = 1.0
CATCH_UP_CHECK_S: Final = 0.002
LEADER_CHECK_S: Final = 0.1
"""How often a waiting request checks whether the controller has changed."""
CONNECTIONS: Final = 4
"""The number of connections: responses on each arrive in order, and a slow one should not delay all others."""


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
                local=_no_local_handler,
            )
        )

    def _other_leader(self) -> "Any":
        """Return the active controller if it is another node. This node may become it while a response is awaited."""
        leader = self._quorum.leader
        return None if leader == self._quorum.node_id else leader

    @property
    def is_needed(self) -> bool:
        """Return whether the active controller is another node."""
        return self._channel is not None and not self._quorum.is_active

    async def forward(
        self, frame: bytes, api_key: int, client_address: bytes, principal: Principal = ANONYMOUS
    ) -> bytes | None:
        """Return the response frame without its size; None if there is no controller, or it is this node by now."""
        from kio.schema.envelope.v0.request import EnvelopeRequest  # a single node needs none

        envelope = EnvelopeRequest(
            request_data=frame, request_principal=encode_principal(principal), client_host_address=client_address
        )
        try:
            answer = await self.ask(ApiKey.ENVELOPE, envelope, changes=APIS[api_key].changes_metadata)
        except PeerUnavailable:
            return None
        data: bytes | None = answer.response_data
        return data if not answer.error_code else None

    async def ask(self, api_key: int, request: Any, *, changes: bool = True, timeout_s: float = RELAY_S_MAX) -> Any:
        """Send a request to the active controller on another node; wait until this node has applied its changes."""
        assert self._channel is not None, "a single node is its own controller"
        self._turn = (self._turn + 1) % CONNECTIONS
        deadline = self._clock.monotonic() + timeout_s
        answer = None
        while answer is None:
            answer = await self._send_while_it_leads(api_key, request, deadline - self._clock.monotonic())
        if changes:
            await self._catch_up()
        return answer

    async def _send_while_it_leads(self, api_key: int, request: Any, left_s: float) -> Any:
        """Return the response, or None if the controller has changed: the old one may hang."""
        assert self._channel is not None
        purpose = f"relay-{self._turn}"
        recipient = self._quorum.leader
        response = asyncio.ensure_future(
            self._channel.ask(api_key, request, timeout_s=left_s, attempt_s_max=left_s, purpose=purpose)
        )
        try:
            while True:
                checking = asyncio.ensure_future(pause(self._clock, LEADER_CHECK_S))
                await asyncio.wait((response, checking), return_when=asyncio.FIRST_COMPLETED)
                checking.cancel()
                if response.done():
                    return response.result()
                if self._quorum.is_active:
                    raise PeerUnavailable("this node has become the active controller")
                leader = self._quorum.leader
                if recipient is None:
                    recipient = leader
                elif leader not in (None, recipient):
                    return None
        finally:
            response.cancel()

    async def _catch_up(self) -> None:
        """Wait until this node has applied everything that the controller has committed; limited, as it is optional."""
        deadline = self._clock.monotonic() + CATCH_UP_S_MAX
        target = await self._committed()
        while target is not None and self._quorum.image.offset + 1 < target:
            if self._clock.monotonic() >= deadline:
                return
            await pause(self._clock, CATCH_UP_CHECK_S)

    async def _committed(self) -> int | None:
        from kio.schema.describe_quorum.v2.request import DescribeQuorumRequest, PartitionData, TopicData
        from kio.static.primitive import i32

        from penstock.metadata.voter_wire import METADATA_TOPIC

        assert self._channel is not None
        topic = TopicData(topic_name=METADATA_TOPIC, partitions=(PartitionData(partition_index=i32(0)),))
        request = DescribeQuorumRequest(topics=(topic,))
        try:
            answer = await self._channel.ask(
                ApiKey.DESCRIBE_QUORUM, request, timeout_s=CATCH_UP_S_MAX, purpose="relay-offset"
            )
        except PeerUnavailable:
            return None
        return int(answer.topics[0].partitions[0].high_watermark)


def is_for_this_node(request: "Request") -> bool:
    """Return whether this node must answer: each node has its own loggers."""
    if request.header.api_key != ApiKey.INCREMENTAL_ALTER_CONFIGS:
        return False
    return any(resource.resource_type == BROKER_LOGGER for resource in request.body.resources)


def address_bytes(host: str) -> bytes:
    """Return an address in the bytes of Java's InetAddress; none for an invalid one."""
    try:
        return ip_address(host).packed
    except ValueError:
        return b""


def address_text(address: bytes) -> str:
    """Return the text of an address; an empty one, which no ACL names, for invalid bytes."""
    try:
        return str(ip_address(address))
    except ValueError:
        return ""


async def _no_local_handler(api_key: int, request: Any) -> Any:
    raise AssertionError("a request that this node can answer is not forwarded")
