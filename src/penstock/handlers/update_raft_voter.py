"""UpdateRaftVoter, version 0: a voter updates its endpoints.

Goes to metadata/membership.py. Refuses: INCONSISTENT_CLUSTER_ID, NOT_CONTROLLER, VOTER_NOT_FOUND, FENCED_LEADER_EPOCH.
"""

from kio.schema.errors import ErrorCode
from kio.schema.update_raft_voter.v0.request import UpdateRaftVoterRequest
from kio.schema.update_raft_voter.v0.response import CurrentLeader, UpdateRaftVoterResponse

from penstock.handlers.support.context import Context, Request
from penstock.handlers.support.entities import NO_ERROR, NO_THROTTLE, failed, int32, node
from penstock.handlers.support.quorum_checks import check_cluster
from penstock.handlers.support.raft_voters import CHANGE_S_MAX, voter_of
from penstock.metadata.membership import update_voter
from penstock.model.errors import FencedLeaderEpoch, Refusal
from penstock.model.ids import NO_NODE


async def handle(context: Context, request: Request) -> UpdateRaftVoterResponse:
    body: UpdateRaftVoterRequest = request.body
    quorum = context.quorum
    try:
        check_cluster(context, body.cluster_id)
        if 0 <= body.current_leader_epoch < quorum.epoch:
            raise FencedLeaderEpoch
        await update_voter(quorum, context.clock, voter_of(body), timeout_s=CHANGE_S_MAX)
    except Refusal as refusal:
        return _response(context, failed(refusal))
    return _response(context, NO_ERROR)


def _response(context: Context, error: ErrorCode) -> UpdateRaftVoterResponse:
    leader = context.quorum.leader
    address = None if leader is None else context.quorum.voter_registry.address_of(leader)
    host, port = address or ("", -1)
    return UpdateRaftVoterResponse(
        throttle_time=NO_THROTTLE,
        error_code=error,
        current_leader=CurrentLeader(
            leader_id=node(NO_NODE if leader is None else leader),
            leader_epoch=int32(context.quorum.epoch),
            host=host,
            port=int32(port),
        ),
    )
