"""The core's messages are unchanged after conversion to the wire format and back."""

from typing import Any
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from penstock.metadata import voter_wire
from penstock.metadata.identity import NodeIdentity
from penstock.metadata.voters import VoterEndpoint
from penstock.model.errors import Corruption
from penstock.model.ids import LeaderEpoch, NodeId, Offset
from penstock.raft.messages import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    FetchRequest,
    Message,
    VoteRequest,
    VoteResponse,
)
from penstock.wire import codec
from penstock.wire.api import APIS, ApiKey
from penstock.wire.records import Record, encode_batch

PLACE = NodeIdentity(
    cluster_id="the-cluster",
    node_id=NodeId(1),
    directory_id=UUID(int=9),
    endpoints=lambda: (VoterEndpoint(name="CONTROLLER", host="here", port=9093),),
    fetch_bytes_max=1000,
    fetch_wait_ms=500,
)
VOTE = VoteRequest(epoch=LeaderEpoch(5), last_epoch=LeaderEpoch(4), end_offset=Offset(77), pre_vote=True)
BEGIN = BeginQuorumEpochRequest(epoch=LeaderEpoch(5))
END = EndQuorumEpochRequest(epoch=LeaderEpoch(5), preferred_successors=(NodeId(3), NodeId(2)))
FETCH = FetchRequest(
    epoch=LeaderEpoch(5),
    request_id=8,
    fetch_offset=Offset(10),
    last_fetched_epoch=LeaderEpoch(4),
    high_watermark=Offset(9),
    disk=UUID(int=9),
)


def as_received(message: Message) -> Any:
    """Return the request as the peer's handler sees it."""
    key, entity = voter_wire.write_request(PLACE, NodeId(2), message)
    version = APIS[key].max_version
    return codec.read_request(key, version, codec.write_request(key, version, entity))


def answered(key: int, entity: Any) -> Any:
    version = APIS[key].max_version
    return codec.read_response(key, version, codec.write_response(key, version, entity))


def test_requests_are_read_as_they_were_written() -> None:
    assert voter_wire.read_vote(as_received(VOTE)) == (1, VOTE)
    assert voter_wire.read_begin(as_received(BEGIN)) == (1, BEGIN)
    assert voter_wire.read_end(as_received(END)) == (1, END)
    assert as_received(BEGIN).leader_endpoints[0].host == "here"
    fetch = as_received(FETCH)
    partition = voter_wire.only_partition(fetch.topics)
    assert (fetch.cluster_id, fetch.replica_state.replica_id) == ("the-cluster", 1)
    assert (partition.fetch_offset, partition.high_watermark, partition.replica_directory_id) == (10, 9, UUID(int=9))


def test_responses_are_read_as_they_were_written() -> None:
    vote = VoteResponse(epoch=LeaderEpoch(6), leader=NodeId(3), granted=False, pre_vote=True)
    entity = answered(ApiKey.VOTE, voter_wire.write_vote(vote, VOTE, [(3, ("there", 7))]))
    assert entity.topics[0].partitions[0].error_code == ErrorCode.fenced_leader_epoch
    assert voter_wire.read_answer(VOTE, entity) == vote
    assert list(voter_wire.endpoints_in(entity)) == [(3, ("there", 7))]
    begun = voter_wire.write_begin(asked=LeaderEpoch(5), epoch=LeaderEpoch(5), leader=NodeId(1))
    assert voter_wire.read_answer(BEGIN, answered(ApiKey.BEGIN_QUORUM_EPOCH, begun)) == BeginQuorumEpochResponse(
        epoch=LeaderEpoch(5), leader=NodeId(1)
    )
    ended = voter_wire.write_end(asked=LeaderEpoch(5), epoch=LeaderEpoch(5), leader=None)
    assert voter_wire.read_answer(END, answered(ApiKey.END_QUORUM_EPOCH, ended)) is None


def batch(offset: int) -> bytes:
    return encode_batch([Record(timestamp=1, value=b"x")], base_offset=offset, leader_epoch=5)


def test_batches_of_a_leader_must_be_contiguous_and_intact() -> None:
    read = voter_wire._read_batches
    assert [each.base_offset for each in read(batch(10) + batch(11) + batch(12)[:-4], 10)] == [10, 11]
    with pytest.raises(Corruption):
        list(read(batch(11), 10))
    broken = bytearray(batch(10))
    broken[-1] ^= 1
    with pytest.raises(Corruption):
        list(read(bytes(broken), 10))


def test_a_request_for_another_log_is_rejected() -> None:
    entity = as_received(VOTE)
    with pytest.raises(Corruption):
        voter_wire.only_partition(entity.topics * 2)
