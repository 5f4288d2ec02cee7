"""FindCoordinator, and groups of the classic protocol: JoinGroup, SyncGroup, Heartbeat, LeaveGroup."""

from __future__ import annotations

from tests.differential.catalogue.group_requests import (
    JOIN_VERSIONS,
    beat,
    begin_join,
    begin_sync,
    join,
    leave,
    new_member,
    ready,
    stable_member,
    subscription,
    sync,
    until_rebalancing,
)
from tests.differential.scenario import scenario
from tests.differential.session import SILENCE_SECONDS, Session


@scenario
def coordinators_in_every_version(s: Session) -> None:
    group = s.name("g")
    ready(s, group)
    for version in range(7):
        s.call("find_coordinator", version, key=group, key_type=0, coordinator_keys=[group])
        s.call("find_coordinator", version, "an empty key", key="", key_type=0, coordinator_keys=[""])
    for version in range(4, 7):
        s.call("find_coordinator", version, "of no keys", key_type=0, coordinator_keys=[])
        s.call("find_coordinator", version, "of one key twice", key_type=0, coordinator_keys=[group, group])
        s.call("find_coordinator", version, "of three", key_type=0, coordinator_keys=[group, "", s.name("other")])
    for version in range(1, 7):
        for key_type in (-1, 3, 100):
            label = f"of type {key_type}"
            s.call("find_coordinator", version, label, key=group, key_type=key_type, coordinator_keys=[group])


@scenario
def a_classic_group_in_every_version(s: Session) -> None:
    for version in JOIN_VERSIONS:
        group = s.name(f"v{version}")
        ready(s, group)
        member = str(join(s, group, version=version, label="first")["member_id"])
        if version >= 4:
            join(s, group, member, version=version, label="with the id")
        sync(s, group, 1, member, {member: b"all of it"}, version=min(version, 5))
        sync(s, group, 1, member, version=min(version, 5), label="again")
        beat(s, group, 1, member, version=min(version, 4))
        join(s, group, member, version=version, label="the leader joins again")
        beat(s, group, 1, member, version=min(version, 4), label="the old generation")
        beat(s, group, 2, member, version=min(version, 4), label="before the sync")
        sync(s, group, 2, member, {member: b"all of it"}, version=min(version, 5))
        leave(s, group, member, version=min(version, 5))
        leave(s, group, member, version=min(version, 5), label="again")
        beat(s, group, 2, member, version=min(version, 4), label="after it left")


@scenario
def members_that_are_not_there(s: Session) -> None:
    group, nobody = s.name("g"), s.name("nobody")
    ready(s, group, nobody, s.name("fresh"))
    member = stable_member(s, group)
    for who, where in ((group, "a group of another"), (nobody, "no group")):
        for version in JOIN_VERSIONS:
            join(s, who, "stranger", version=version, label=f"a stranger in {where}")
        for version in range(6):
            sync(s, who, 1, "stranger", version=version, label=f"a stranger in {where}")
            leave(s, who, "stranger", version=version, label=f"a stranger in {where}")
        for version in range(5):
            beat(s, who, 1, "stranger", version=version, label=f"a stranger in {where}")
    for generation in (0, 2, -1):
        beat(s, group, generation, member, label=f"generation {generation}")
        sync(s, group, generation, member, label=f"generation {generation}")
    leave(s, group, label="nobody leaves")
    leave(s, nobody, label="nobody leaves nothing")
    beat(s, group, 1, member, label="still a member")


@scenario
def groups_without_a_name(s: Session) -> None:
    ready(s, "a")
    for version in JOIN_VERSIONS:
        join(s, "", version=version)
    for version in range(6):
        sync(s, "", 1, "m", version=version)
        leave(s, "", "m", version=version)
    for version in range(5):
        beat(s, "", 1, "m", version=version)


@scenario
def joins_that_are_refused(s: Session) -> None:
    group = s.name("g")
    ready(s, group)
    for version in (0, 5, 9):
        for session in (0, -1, 5_999, 1_800_001, 2**31 - 1):
            join(s, group, version=version, label=f"a session of {session} ms", session_timeout=session)
        join(s, group, version=version, label="no protocols", protocols=())
        join(s, group, version=version, label="no type", protocol_type="")
        join(s, group, version=version, label="neither", protocol_type="", protocols=())
    for session in (6_000, 1_800_000):
        join(s, group, label=f"a session of {session} ms", session_timeout=session)
    member = stable_member(s, group, protocols=("range", "roundrobin"))
    join(s, group, label="another type", protocol_type="connect")
    join(s, group, label="no protocol in common", protocols=("sticky",))
    join(s, group, label="no protocols in a group", protocols=())
    join(s, group, member, label="the member with another type", protocol_type="connect")
    sync(s, group, 1, member, label="another type", protocol_type="connect")
    sync(s, group, 1, member, label="another protocol", protocol_name="roundrobin")
    sync(s, group, 1, member, label="neither is said", protocol_type=None, protocol_name=None)
    join(s, group, member, label="a protocol that nobody else has", protocols=("sticky",))
    join(s, s.name("odd"), label="a type that is not consumer", protocol_type="connect", protocols=("v0", "v1"))


@scenario
def two_members_share(s: Session) -> None:
    group = s.name("g")
    ready(s, group)
    one = stable_member(s, group)
    two = new_member(s, group)
    waiting = begin_join(s, group, two, label="the second")
    until_rebalancing(s, group, 1, one)
    sync(s, group, 1, one, label="while it rebalances")
    join(s, group, one, label="the leader comes again")
    waiting.answer()
    beat(s, group, 2, two, label="before the leader has spoken")
    share = begin_sync(s, group, 2, two)
    sync(s, group, 2, one, {one: b"the one half", two: b"the other"}, label="the leader")
    share.answer()
    sync(s, group, 2, two, label="once more")
    join(s, group, two, label="a follower comes with nothing new")
    beat(s, group, 2, two)
    waiting = begin_join(s, group, two, metadata=subscription("t", "u"), label="a follower comes with something new")
    until_rebalancing(s, group, 2, one)
    join(s, group, one)
    waiting.answer()
    leave(s, group, one, label="the leader goes before it has spoken")
    beat(s, group, 3, two, label="after that")
    join(s, group, two, label="alone")
    sync(s, group, 4, two, {"stranger": b"nothing"}, label="an assignment without the member")
    leave(s, group, two)


@scenario
def members_vote_for_a_protocol(s: Session) -> None:
    group = s.name("g")
    ready(s, group)
    one = stable_member(s, group, protocols=("range", "roundrobin", "sticky"))
    two = new_member(s, group, protocols=("sticky", "roundrobin"))
    waiting = begin_join(s, group, two, protocols=("sticky", "roundrobin"), label="the second")
    until_rebalancing(s, group, 1, one)
    join(s, group, one, protocols=("range", "sticky", "roundrobin"), label="both like sticky best")
    waiting.answer()
    for who in (one, two):
        sync(s, group, 2, who, {one: b"1", two: b"2"}, protocol_name="sticky")


@scenario
def static_members(s: Session) -> None:
    group = s.name("g")
    ready(s, group)
    first = str(join(s, group, group_instance_id="instance", label="of an instance")["member_id"])
    sync(s, group, 1, first, {first: b"all of it"}, group_instance_id="instance")
    beat(s, group, 1, first, group_instance_id="instance")
    beat(s, group, 1, first, label="without its instance")
    beat(s, group, 1, first, label="of another instance", group_instance_id="j")
    beat(s, group, 1, "stranger", label="of an unknown instance", group_instance_id="j")
    second = str(join(s, group, group_instance_id="instance", label="the instance again")["member_id"])
    beat(s, group, 1, first, label="the one before", group_instance_id="instance")
    sync(s, group, 1, first, label="the one before", group_instance_id="instance")
    join(s, group, first, label="the one before", group_instance_id="instance")
    beat(s, group, 1, second, label="the new one", group_instance_id="instance")
    sync(s, group, 1, second, label="the new one", group_instance_id="instance")
    for version in (5, 8):
        join(s, group, second, version=version, label="with its id", group_instance_id="instance")
    sync(s, group, 2, second, {second: b"all of it"}, group_instance_id="instance")
    third = str(
        join(s, group, version=5, group_instance_id="instance", label="once more, of an old client")["member_id"]
    )
    beat(s, group, 2, third, group_instance_id="instance")
    join(s, group, "stranger", label="with an id never given", group_instance_id="k")
    s.call("describe_groups", 5, groups=[group])
    one = {"member_id": "", "group_instance_id": "instance"}
    leave(s, group, label="a stranger by instance", members=[{"member_id": "", "group_instance_id": "j"}])
    leave(s, group, label="with a wrong id", members=[{"member_id": "x", "group_instance_id": "instance"}])
    leave(s, group, label="by instance, and twice", members=[one, one])


@scenario
def members_leave_together(s: Session) -> None:
    group = s.name("g")
    ready(s, group)
    one = stable_member(s, group)
    two = new_member(s, group)
    waiting = begin_join(s, group, two, label="the second")
    until_rebalancing(s, group, 1, one)
    join(s, group, one)
    waiting.answer()
    pending = new_member(s, group)
    leave(s, group, pending, label="one that never joined")
    leave(s, group, two, "stranger", one, label="both and a stranger")
    s.call("describe_groups", 5, groups=[group])


@scenario
def groups_that_are_full(s: Session) -> None:
    group = s.name("g")
    ready(s, group)
    members = [stable_member(s, group)]
    for generation in (1, 2, 3):
        members.append(new_member(s, group))
        waiting = [begin_join(s, group, members[-1], label=f"member {generation + 1}")]
        until_rebalancing(s, group, generation, members[0])
        waiting += [begin_join(s, group, member, label="again") for member in members[1:-1]]
        join(s, group, members[0], label="the leader again")
        for one in waiting:
            one.answer()
        for member in members:
            sync(s, group, generation + 1, member, dict.fromkeys(members, b"a part"))
    join(s, group, label="one too many")
    join(s, group, version=3, label="one too many, of an old client")
    beat(s, group, 4, members[0])


@scenario
def subscriptions_that_nobody_can_read(s: Session) -> None:
    s.answer_seconds_max = SILENCE_SECONDS
    group = s.name("g")
    ready(s, group)
    member = new_member(s, group, metadata=b"said by the client")
    join(s, group, member, label="with the id", metadata=b"said by the client")
