"""AddRaftVoter, versions 0-1: an observer of the metadata log becomes a voter.

Answered after the change is committed; v1 can ask for an earlier response, which does not justify a second path.
Goes to metadata/membership.py. Refuses: INCONSISTENT_CLUSTER_ID, NOT_CONTROLLER, DUPLICATE_VOTER, REQUEST_TIMED_OUT.
"""

from kio.schema.add_raft_voter.v1.request import AddRaftVoterRequest
from kio.schema.add_raft_voter.v1.response import AddRaftVoterResponse

from penstock.handlers.support.context import Context, Request
from penstock.handlers.support.entities import NO_ERROR, NO_THROTTLE, failed
from penstock.handlers.support.quorum_checks import check_cluster
from penstock.handlers.support.raft_voters import voter_of
from penstock.metadata.membership import add_voter
from penstock.model.errors import Refusal


async def handle(context: Context, request: Request) -> AddRaftVoterResponse:
    body: AddRaftVoterRequest = request.body
    try:
        check_cluster(context, body.cluster_id)
        await add_voter(context.quorum, context.clock, voter_of(body), timeout_s=body.timeout.total_seconds())
    except Refusal as refusal:
        return AddRaftVoterResponse(
            throttle_time=NO_THROTTLE, error_code=failed(refusal), error_message=refusal.message
        )
    return AddRaftVoterResponse(throttle_time=NO_THROTTLE, error_code=NO_ERROR, error_message=None)
