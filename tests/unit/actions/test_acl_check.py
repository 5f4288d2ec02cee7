"""Verdicts on a principal's access, and the changes that reverse them."""

from random import Random

from penstock.actions.acl_check import Question, Rules, check
from penstock.actions.acl_text import parse_principal, parse_resource
from penstock.model.acl import Acl, Operation, Permission
from penstock.security.authorizer import NO_ACL, NO_MATCH, SUPER_USER

READ = Question("User:bob", Operation.READ, parse_resource("topic:orders"))


def acl(text: str, *, who: str = "bob", operation: int = Operation.READ, host: str = "*", denies: bool = False) -> Acl:
    kind, name, pattern = parse_resource(text)
    permission = Permission.DENY if denies else Permission.ALLOW
    return Acl(kind, name, pattern, parse_principal(who), host, operation, permission)


def test_without_acls_access_is_denied_and_an_allow_would_change_it() -> None:
    verdict = check(Rules([]), READ)
    assert verdict == ((False, NO_ACL), (), acl("topic:orders"), {})
    assert check(Rules([], if_no_acl=True), READ).decision == (True, NO_ACL)
    assert check(Rules([acl("topic:orders", who="eve")], if_no_acl=True), READ).decision == (False, NO_MATCH)


def test_an_allowance_is_reversed_by_a_deny() -> None:
    rule = acl("topic:ord*")
    assert check(Rules([rule]), READ) == ((True, rule), (), acl("topic:orders", denies=True), {})


def test_every_deny_must_be_removed() -> None:
    denials = [acl("topic:orders", denies=True), acl("topic:*", who="*", operation=Operation.ALL, denies=True)]
    verdict = check(Rules([*denials, acl("topic:o*")]), READ)
    assert set(verdict.remove) == set(denials) and verdict.add is None
    assert check(Rules(denials), READ).add == acl("topic:orders")


def test_a_super_user_may_do_everything() -> None:
    rules = Rules([acl("topic:orders", denies=True)], super_users={"User:bob"})
    assert check(rules, READ) == ((True, SUPER_USER), (), None, {})


def test_other_hosts_with_the_opposite_verdict_are_named() -> None:
    here = acl("topic:orders", host="10.0.0.1")
    verdict = check(Rules([here]), READ)
    assert not verdict.decision.is_allowed and verdict.elsewhere == {"10.0.0.1": (True, here)}
    assert check(Rules([here]), READ._replace(host="10.0.0.1")).decision == (True, here)


def test_the_changes_always_reverse_the_verdict() -> None:
    random = Random(1)
    for _ in range(2000):
        acls = {
            acl(
                random.choice(("topic:orders", "topic:o*", "topic:*", "topic:x")),
                who=random.choice(("bob", "eve", "*")),
                operation=random.choice((Operation.READ, Operation.ALL, Operation.WRITE)),
                host=random.choice(("*", "10.0.0.1")),
                denies=random.random() < 0.5,
            )
            for _ in range(random.randrange(6))
        }
        question = READ._replace(host=random.choice(("*", "10.0.0.1")), operation=random.choice((3, 8)))
        rules = Rules(sorted(acls), if_no_acl=random.random() < 0.5)
        verdict = check(rules, question)
        changed = [*(acls - set(verdict.remove)), *([verdict.add] if verdict.add else [])]
        assert check(rules._replace(acls=changed), question).decision.is_allowed is not verdict.decision.is_allowed
