"""Requests about ACLs, SASL, tokens and passwords on brokers without security."""

from __future__ import annotations

from tests.differential.entities import request_frame
from tests.differential.scenario import scenario
from tests.differential.session import Session

ANY = {"operation": 1, "permission_type": 1}
RULE = {
    "resource_type": 2, "resource_name": "t", "resource_pattern_type": 3, "principal": "User:a", "host": "*",
    "operation": 3, "permission_type": 3,
}  # fmt: skip


@scenario
def rules_without_an_authorizer(s: Session) -> None:
    for version in (1, 2, 3):
        s.call("describe_acls", version, resource_type_filter=1, operation=1, permission_type=1)
        s.call("create_acls", version, creations=[RULE, {**RULE, "resource_name": "u"}])
        s.call("create_acls", version, "of nothing", creations=[])
        s.call("delete_acls", version, filters=[{"resource_type_filter": 2, "resource_name_filter": "t", **ANY}])
        s.call("delete_acls", version, "of nothing", filters=[])


@scenario
def sasl_where_nobody_asks_for_it(s: Session) -> None:
    for version in (0, 1):
        s.call("sasl_handshake", version, mechanism="PLAIN")
    for version in (0, 1, 2):
        s.call("sasl_authenticate", version, auth_bytes=b"\0a\0b")


def as_bytes(s: Session, api: str, version: int, label: str = "", **values: object) -> None:
    """Compare the frames themselves: the decoder treats times of -1 as missing."""
    got = s.exchange(request_frame(api, version, values))
    s.note(f"{api} v{version} {label}", got if isinstance(got, str) else got.hex())


@scenario
def tokens_for_nobody_in_particular(s: Session) -> None:
    for version in (1, 2, 3):
        as_bytes(s, "create_delegation_token", version, renewers=[], max_lifetime=1000)
        as_bytes(s, "describe_delegation_token", version, owners=None)
    owner = {"owner_principal_type": "User", "owner_principal_name": "b"}
    as_bytes(s, "create_delegation_token", 3, "for somebody else", **owner, renewers=[], max_lifetime=1000)
    for version in (1, 2):
        as_bytes(s, "renew_delegation_token", version, hmac=b"h", renew_period=1000)
        as_bytes(s, "expire_delegation_token", version, hmac=b"h", expiry_time_period=1000)


@scenario
def passwords_that_nobody_has(s: Session) -> None:
    for label, users in (("of all", None), ("of an empty list", [])):
        answer = s.ask("describe_user_scram_credentials", 0, users=users)
        if isinstance(answer, dict):  # other scenarios have users
            answer["results"] = len(answer["results"]) > 0
        s.note(f"describe_user_scram_credentials v0 {label}", answer)
    s.call("describe_user_scram_credentials", 0, "of two", users=[{"name": "a"}, {"name": "b"}])
    s.call("describe_user_scram_credentials", 0, "of one twice", users=[{"name": "a"}, {"name": "a"}])
    s.call("describe_user_scram_credentials", 0, "of the empty name", users=[{"name": ""}])
