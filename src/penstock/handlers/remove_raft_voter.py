"""RemoveRaftVoter, version 0: a voter becomes an observer.

Goes to metadata/membership.py. Refuses: INCONSISTENT_CLUSTER_ID, NOT_CONTROLLER, VOTER_NOT_FOUND, INVALID_REQUEST for
the last voter, REQUEST_TIMED_OUT while another change is under way.
"""

from kio.schema.remove_raft_voter.v0.request import RemoveRaftVoterRequest
from kio.schema.remove_raft_voter.v0.response import RemoveRaftVoterResponse

from penstock.handlers.support.context import Context, Request
from penstock.handlers.support.entities import NO_ERROR, NO_THROTTLE, failed
from penstock.handlers.support.quorum_checks import check_cluster
from penstock.handlers.support.raft_voters import CHANGE_S_MAX
from penstock.metadata.membership import remove_voter
from penstock.model.errors import Refusal
from penstock.model.ids import NodeId


async def handle(context: Context, request: Request) -> RemoveRaftVoterResponse:
    body: RemoveRaftVoterRequest = request.body
    try:
        check_cluster(context, body.cluster_id)
        await remove_voter(
            context.quorum, context.clock, NodeId(body.voter_id), body.voter_directory_id, timeout_s=CHANGE_S_MAX
        )
    except Refusal as refusal:
        return RemoveRaftVoterResponse(
            throttle_time=NO_THROTTLE, error_code=failed(refusal), error_message=refusal.message
        )
    return RemoveRaftVoterResponse(throttle_time=NO_THROTTLE, error_code=NO_ERROR, error_message=None)
