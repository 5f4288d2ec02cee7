"""BeginQuorumEpoch, versions 0-1: a voter announces that it leads an epoch, and (v1) its listeners.

Goes to metadata/messenger.py. Refuses: INCONSISTENT_CLUSTER_ID, INVALID_REQUEST.
"""

from kio.schema.begin_quorum_epoch.v1.request import BeginQuorumEpochRequest
from kio.schema.begin_quorum_epoch.v1.response import BeginQuorumEpochResponse
from kio.schema.errors import ErrorCode

from penstock.handlers.support.context import Context, Request
from penstock.handlers.support.quorum_checks import check_cluster, check_peer
from penstock.metadata import voter_wire
from penstock.model.errors import Corruption, InvalidRequest, Refusal
from penstock.raft.messages import BeginQuorumEpochResponse as Answer


async def handle(context: Context, request: Request) -> BeginQuorumEpochResponse:
    body: BeginQuorumEpochRequest = request.body
    quorum = context.quorum
    try:
        check_cluster(context, body.cluster_id)
        source, message = voter_wire.read_begin(body)
        check_peer(context, source)
        for endpoint in body.leader_endpoints[:1]:
            quorum.voter_registry.hint(source, (endpoint.host, endpoint.port))
        answer = await quorum.messenger.ask_core(source, message, Answer)
    except Refusal as refusal:
        return BeginQuorumEpochResponse(error_code=ErrorCode(refusal.code), topics=())
    except Corruption:
        return BeginQuorumEpochResponse(error_code=ErrorCode(InvalidRequest.code), topics=())
    return voter_wire.write_begin(asked=message.epoch, epoch=answer.epoch, leader=answer.leader)
