"""Principals and their encoding."""

import pytest

from penstock.security.principal import (
    ANONYMOUS,
    InvalidPrincipal,
    Principal,
    decode_principal,
    encode_principal,
    parse_principals,
    user,
)


def test_a_principal_survives_its_encoding() -> None:
    for principal in (ANONYMOUS, user("CN=a,O=b"), Principal("Group", "ü")):
        assert decode_principal(encode_principal(principal)) == principal


def test_the_encoding_is_kafkas() -> None:
    assert encode_principal(user("alice")) == b"\0\0\x05User\x06alice\0\0"


@pytest.mark.parametrize(
    "data", [b"", b"\0", b"\0\1\x05User\x06alice\0\0", b"\0\0\x05Us", b"\0\0\x05User\x06alice\0\xff"]
)
def test_malformed_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(InvalidPrincipal):
        decode_principal(data)


def test_super_users_are_separated_by_semicolons() -> None:
    assert parse_principals("User:CN=a,O=b; User:c;") == {user("CN=a,O=b"), user("c")}
    assert parse_principals("") == frozenset()
