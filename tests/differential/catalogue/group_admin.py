"""DescribeGroups, ListGroups and DeleteGroups."""

from __future__ import annotations

from typing import Any

from tests.differential.catalogue.group_requests import (
    begin_join,
    commit,
    join,
    leave,
    new_member,
    ready,
    stable_member,
    subscription,
    until_rebalancing,
)
from tests.differential.scenario import scenario
from tests.differential.session import Session


def own_groups(s: Session, version: int, label: str, **filters: Any) -> None:
    """Record the ListGroups entries of this scenario's groups only."""
    answer = s.ask("list_groups", version, **filters)
    if isinstance(answer, dict):
        answer["groups"] = [one for one in answer["groups"] if one["group_id"].startswith(s.name(""))]
        answer["groups"].sort(key=lambda one: one["group_id"])
    s.note(f"list_groups v{version} {label}", answer)


@scenario
def groups_are_described_in_every_version(s: Session) -> None:
    topic = s.topic()
    stable, empty, waiting_group, new = (s.name(text) for text in ("stable", "empty", "waiting", "new"))
    ready(s, stable, empty, waiting_group, new)
    stable_member(s, stable, metadata=subscription(topic))
    leave(s, empty, stable_member(s, empty))
    join(s, waiting_group, new_member(s, waiting_group), label="without a sync")
    new_member(s, new)
    simple = s.name("simple")
    commit(s, simple, (0, 1), topic=topic)
    for version in range(7):
        for group in (stable, empty, waiting_group, new, simple, s.name("nobody"), ""):
            s.call("describe_groups", version, group or "a group without a name", groups=[group],
                   include_authorized_operations=False)  # fmt: skip
        s.call("describe_groups", version, "of none", groups=[])
        if version >= 3:
            s.call("describe_groups", version, "what may be done", groups=[stable, s.name("nobody")],
                   include_authorized_operations=True)  # fmt: skip
    s.call("describe_groups", 5, "of one twice", groups=[stable, stable])


@scenario
def groups_are_described_while_they_rebalance(s: Session) -> None:
    group = s.name("g")
    ready(s, group)
    one = stable_member(s, group)
    two = new_member(s, group)
    waiting = begin_join(s, group, two, label="the second")
    until_rebalancing(s, group, 1, one)
    s.call("describe_groups", 5, "preparing", groups=[group])
    own_groups(s, 4, "preparing", states_filter=["PreparingRebalance"])
    join(s, group, one)
    waiting.answer()
    s.call("describe_groups", 5, "completing", groups=[group])
    own_groups(s, 4, "completing", states_filter=["completingrebalance"])


@scenario
def groups_are_listed(s: Session) -> None:
    topic = s.topic()
    stable, empty, simple, modern = (s.name(text) for text in ("stable", "empty", "simple", "modern"))
    ready(s, stable, empty, simple, modern)
    stable_member(s, stable)
    leave(s, empty, stable_member(s, empty))
    commit(s, simple, (0, 1), topic=topic)
    s.call("consumer_group_heartbeat", 1, group_id=modern, member_id="m", member_epoch=0, rebalance_timeout=10_000,
           subscribed_topic_names=[topic], topic_partitions=[])  # fmt: skip
    for version in range(6):
        own_groups(s, version, "all", states_filter=[], types_filter=[])
    for version in (4, 5):
        for states in (["Stable"], ["stable"], ["STABLE", "Empty"], ["Nonsense"], ["Dead"], ["Assigning"], [""]):
            own_groups(s, version, f"in {states}", states_filter=states, types_filter=[])
    for types in (["classic"], ["Consumer"], ["classic", "consumer"], ["share"], ["nonsense"], [""]):
        own_groups(s, 5, f"of {types}", states_filter=[], types_filter=types)
    own_groups(s, 5, "of both", states_filter=["Stable"], types_filter=["consumer"])


@scenario
def groups_are_deleted(s: Session) -> None:
    topic = s.topic()
    stable, empty, simple, modern, new = (s.name(text) for text in ("stable", "empty", "simple", "modern", "new"))
    ready(s, stable, empty, simple, modern, new)
    member = stable_member(s, stable)
    leave(s, empty, stable_member(s, empty))
    commit(s, simple, (0, 1), topic=topic)
    new_member(s, new)
    s.call("consumer_group_heartbeat", 1, group_id=modern, member_id="m", member_epoch=0, rebalance_timeout=10_000,
           subscribed_topic_names=[topic], topic_partitions=[])  # fmt: skip
    for version in range(3):
        s.call("delete_groups", version, "of those that cannot be", groups_names=[stable, modern, s.name("nobody"), ""])
        s.call("delete_groups", version, "of none", groups_names=[])
    s.call("delete_groups", 2, "of those that can", groups_names=[empty, simple])
    s.call("delete_groups", 2, "again", groups_names=[empty, simple])
    s.call("delete_groups", 2, "of one that nobody joined", groups_names=[new])
    leave(s, stable, member)
    s.call("delete_groups", 2, "of one twice", groups_names=[stable, stable])
    s.call("consumer_group_heartbeat", 1, "leaves", group_id=modern, member_id="m", member_epoch=-1)
    s.call("delete_groups", 2, "of a consumer group", groups_names=[modern])
    own_groups(s, 5, "what is left", states_filter=[], types_filter=[])
