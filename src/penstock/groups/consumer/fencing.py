"""Removal of members that left, were removed, or did not send a heartbeat in time.

Their partitions become free immediately and the group epoch rises. If only members of the classic
protocol remain, the group becomes classic again: migration.py.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from penstock.groups.consumer.commands import (
    CONSUMER_JOIN,
    CONSUMER_REVOKE,
    join_timer,
    revoke_timer,
    session_timer,
    sync_timer,
)
from penstock.groups.consumer.member import ConsumerMember, MemberState, member_tombstones
from penstock.groups.consumer.migration import becomes_classic, downgrade
from penstock.groups.consumer.update import Update
from penstock.groups.turn import TimerKey


def fence(update: Update, members: Sequence[ConsumerMember]) -> None:
    """Remove the members."""
    if not members:
        return
    group, turn = update.group, update.turn
    for member in members:
        cancel_timers(update, member.id)
    if becomes_classic(update, members):
        downgrade(update, leaving=members, must_rebalance=True)
        return
    for member in members:
        turn.decision.records += member_tombstones(group.id, member.id)
    regexes = Counter(member.topic_regex for member in members if member.topic_regex)
    for regex, count in regexes.items():
        if group.regexes[regex] == count:
            turn.write(group.regex_record(regex, None))
    update.bump(update.topics.hash_of(group.subscribed_names(without=members)))


def cancel_timers(update: Update, member_id: str) -> None:
    for key in (session_timer, revoke_timer, join_timer, sync_timer):
        update.turn.cancel_timer(key(update.group.id, member_id))
    if member_id in update.volatile.rejoining:
        update.volatile = replace(update.volatile, rejoining=update.volatile.rejoining - {member_id})


def expire(update: Update, timer: TimerKey) -> None:
    """Fence the member whose timer has fired, if it still applies."""
    if timer.kind == CONSUMER_JOIN:
        update.volatile = replace(update.volatile, rejoining=update.volatile.rejoining - {timer.member_id})
    member = update.group.members.get(timer.member_id)
    if member is None:
        return
    # A static member that left temporarily has revoked everything already.
    is_late = member.state is MemberState.UNREVOKED_PARTITIONS and member.epoch >= 0
    if timer.kind != CONSUMER_REVOKE or is_late:
        fence(update, [member])
