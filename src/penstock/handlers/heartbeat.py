"""Heartbeat, versions 0-4: keeps a member of a classic group alive, and tells it about a rebalance.

v3 adds static members. While the coordinator loads the group, the response has no error, as in
Kafka: no session times out yet. Decoded by wire/hot/heartbeat.py; goes to
groups/classic/requests.py. Refuses: INVALID_GROUP_ID, UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION,
FENCED_INSTANCE_ID, REBALANCE_IN_PROGRESS, and what every coordinator refuses.
"""

from penstock.coordinator.errors import CoordinatorLoadInProgress
from penstock.groups.commands import Heartbeat, HeartbeatReply
from penstock.handlers.support.context import Context, Request
from penstock.handlers.support.reply import Encoded
from penstock.model.acl import Operation
from penstock.model.errors import NO_ERROR, GroupAuthorizationFailed, Refusal
from penstock.wire.hot import heartbeat as wire


async def handle(context: Context, request: Request) -> Encoded:
    body: wire.HeartbeatRequest = request.body
    command = Heartbeat(
        group_id=body.group_id, generation=body.generation, member_id=body.member_id, instance_id=body.instance_id
    )
    try:
        if not request.may_on_group(Operation.READ, body.group_id):
            raise GroupAuthorizationFailed
        reply: HeartbeatReply = await context.groups.ask(body.group_id, command)
        error = reply.error
    except CoordinatorLoadInProgress:
        error = NO_ERROR
    except Refusal as refusal:
        error = refusal.code
    header = request.header
    return Encoded((wire.write_response(header.version, header.correlation_id, error),))
