"""Delegation tokens as records of the metadata log. Pure."""

from penstock.metadata.records import DelegationTokenRecord
from penstock.security.principal import parse_principal
from penstock.security.tokens import DelegationToken


def token_record(token: DelegationToken) -> DelegationTokenRecord:
    return DelegationTokenRecord(
        owner=str(token.owner),
        requester=str(token.requester),
        renewers=tuple(map(str, token.renewers)),
        issue_timestamp=token.issued_at_ms,
        max_timestamp=token.max_at_ms,
        expiration_timestamp=token.expires_at_ms,
        token_id=token.id,
    )


def token_of(record: DelegationTokenRecord) -> DelegationToken:
    return DelegationToken(
        id=record.token_id,
        owner=parse_principal(record.owner),
        requester=parse_principal(record.requester),
        renewers=tuple(map(parse_principal, record.renewers)),
        issued_at_ms=record.issue_timestamp,
        max_at_ms=record.max_timestamp,
        expires_at_ms=record.expiration_timestamp,
    )
