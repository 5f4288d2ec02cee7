"""What a principal may do according to ACLs, why, and which changes would reverse the verdict.

Uses the broker's own decisions (security/authorizer.py). Values in, values out.
"""

from collections.abc import Collection, Sequence
from typing import NamedTuple

from penstock.actions.acl_text import ResourcePattern
from penstock.model.acl import WILDCARD, Acl, Permission
from penstock.security.authorizer import SUPER_USER, AclIndex, Decision, canonical_host


class Question(NamedTuple):
    """May this principal do this? With the host `*`, only ACLs for all hosts count."""

    principal: str
    operation: int
    resource: ResourcePattern
    host: str = WILDCARD


class Rules(NamedTuple):
    """Everything that a decision depends on."""

    acls: Sequence[Acl]
    super_users: Collection[str] = ()
    if_no_acl: bool = False


class Verdict(NamedTuple):
    decision: Decision
    remove: tuple[Acl, ...]
    """ACLs to remove to reverse the verdict."""
    add: Acl | None
    """The ACL to add to reverse the verdict."""
    elsewhere: dict[str, Decision]
    """Hosts for which the verdict is the opposite; only if the question names none."""


def check(rules: Rules, question: Question) -> Verdict:
    if question.principal in rules.super_users:
        return Verdict(Decision(True, SUPER_USER), (), None, {})
    index = AclIndex(rules.acls)
    decision = _decide(index, rules, question)
    elsewhere = _elsewhere(index, rules, question, decision)
    if decision.is_allowed:
        return Verdict(decision, (), _own(question, Permission.DENY), elsewhere)
    denials = []
    verdict = decision
    while not verdict.is_allowed and isinstance(verdict.rule, Acl):
        denials.append(verdict.rule)
        index.remove(verdict.rule)
        verdict = _decide(index, rules, question)
    add = None if verdict.is_allowed else _own(question, Permission.ALLOW)
    return Verdict(decision, tuple(denials), add, elsewhere)


def _decide(index: AclIndex, rules: Rules, question: Question) -> Decision:
    principal, operation, resource, host = question
    return index.decide(
        principal, canonical_host(host), operation, resource.type, resource.name, if_no_acl=rules.if_no_acl
    )


def _elsewhere(index: AclIndex, rules: Rules, question: Question, decision: Decision) -> dict[str, Decision]:
    if question.host != WILDCARD:
        return {}
    hosts = sorted({acl.host for acl in rules.acls} - {WILDCARD})
    found = {host: _decide(index, rules, question._replace(host=host)) for host in hosts}
    return {host: each for host, each in found.items() if each.is_allowed != decision.is_allowed}


def _own(question: Question, permission: int) -> Acl:
    principal, operation, resource, host = question
    return Acl(resource.type, resource.name, resource.pattern_type, principal, host, operation, permission)
