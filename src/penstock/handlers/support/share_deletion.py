"""Deletion of the state of a share group, in three steps that can be repeated.

The group coordinator marks the topics, the share coordinator deletes their state, and the group coordinator forgets
them. A deletion that fails half-way leaves the mark, and the next one deletes the rest. Goes to
groups/share/groups.py and shares/state_client.py. Refuses: NonEmptyGroup, GroupIdNotFound, and what every coordinator
refuses.
"""

from uuid import UUID

from penstock.groups.errors import GroupIdNotFound, NonEmptyGroup
from penstock.groups.share.commands import DeleteShareOffsets, ShareOffsetsDeleted, ShareStateReply
from penstock.handlers.support.context import Context
from penstock.model.errors import Refusal
from penstock.shares.commands import DeleteState
from penstock.shares.states import SharePartitionKey

_KNOWN = {refusal.code: refusal for refusal in (GroupIdNotFound, NonEmptyGroup)}


async def delete_state(
    context: Context, group_id: str, topic_ids: frozenset[UUID] | None
) -> dict[UUID, tuple[int, str]]:
    """Delete the state of topics, or of all if there are none named; return the error of each that had state."""
    reply: ShareStateReply = await context.groups.ask(group_id, DeleteShareOffsets(group_id, topic_ids))
    if reply.error:
        raise _KNOWN.get(reply.error, Refusal)(reply.error_message)
    errors: dict[UUID, tuple[int, str]] = {}
    for topic_id, partitions in sorted(reply.partitions.items()):
        errors[topic_id] = (0, "")
        for index in sorted(partitions):
            deleted = await context.shares.state.ask(DeleteState(SharePartitionKey(group_id, topic_id, index)))
            if deleted.error:
                errors[topic_id] = (deleted.error, deleted.message or "")
    gone = frozenset(topic_id for topic_id, (code, _) in errors.items() if not code)
    if gone:
        await context.groups.ask(group_id, ShareOffsetsDeleted(group_id, gone))
    return errors
