"""Vote, versions 0-2: a candidate requests this voter's vote, or (v2, pre-vote) asks whether it would get it.

Goes to metadata/messenger.py. The epoch and the vote are durable before the response is sent.
Refuses: INCONSISTENT_CLUSTER_ID, INVALID_REQUEST.
"""

from kio.schema.errors import ErrorCode
from kio.schema.vote.v2.request import VoteRequest
from kio.schema.vote.v2.response import VoteResponse

from penstock.handlers.support.context import Context, Request
from penstock.handlers.support.quorum_checks import check_cluster, check_peer
from penstock.metadata import voter_wire
from penstock.metadata.messenger import endpoints_of
from penstock.model.errors import Corruption, InvalidRequest, Refusal
from penstock.raft.messages import VoteResponse as Answer


async def handle(context: Context, request: Request) -> VoteResponse:
    body: VoteRequest = request.body
    quorum = context.quorum
    try:
        check_cluster(context, body.cluster_id)
        source, message = voter_wire.read_vote(body)
        check_peer(context, source)
        answer = await quorum.messenger.ask_core(source, message, Answer)
    except Refusal as refusal:
        return VoteResponse(error_code=ErrorCode(refusal.code), topics=())
    except Corruption:
        return VoteResponse(error_code=ErrorCode(InvalidRequest.code), topics=())
    return voter_wire.write_vote(answer, message, endpoints_of(quorum.voter_registry, answer.leader))
