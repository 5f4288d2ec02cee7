"""EndQuorumEpoch, versions 0-1: the leader resigns and names its preferred successors, the best first.

Goes to metadata/quorum.py. Refuses: INCONSISTENT_CLUSTER_ID, INVALID_REQUEST.
"""

from kio.schema.end_quorum_epoch.v1.request import EndQuorumEpochRequest
from kio.schema.end_quorum_epoch.v1.response import EndQuorumEpochResponse
from kio.schema.errors import ErrorCode

from penstock.handlers.support.context import Context, Request
from penstock.handlers.support.quorum_checks import check_cluster, check_peer
from penstock.metadata import voter_wire
from penstock.model.errors import Corruption, InvalidRequest, Refusal
from penstock.raft.events import Received


async def handle(context: Context, request: Request) -> EndQuorumEpochResponse:
    body: EndQuorumEpochRequest = request.body
    quorum = context.quorum
    try:
        check_cluster(context, body.cluster_id)
        source, message = voter_wire.read_end(body)
        check_peer(context, source)
    except Refusal as refusal:
        return EndQuorumEpochResponse(error_code=ErrorCode(refusal.code), topics=())
    except Corruption:
        return EndQuorumEpochResponse(error_code=ErrorCode(InvalidRequest.code), topics=())
    quorum.step(Received(source, message))
    return voter_wire.write_end(asked=message.epoch, epoch=quorum.epoch, leader=quorum.leader)
