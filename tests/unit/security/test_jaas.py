"""The format of sasl.jaas.config."""

import pytest

from penstock.model.errors import InvalidConfig
from penstock.security.jaas import parse_jaas

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


def test_users_and_the_own_login() -> None:
    text = f"""{PLAIN} required username="node" password="a\\"b;=" user_node="x" user_al=plain user_bob='it "is"' ;"""
    jaas = parse_jaas(text)
    assert jaas.own_login == ("node", 'a"b;=')
    assert jaas.users == {"node": "x", "al": "plain", "bob": 'it "is"'}


def test_a_text_without_a_login_has_none() -> None:
    assert parse_jaas(f"{PLAIN} required;").own_login is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "com.sun.security.auth.module.JndiLoginModule required user=canary;",
        f'{PLAIN} sometimes password="canary";',
        f'{PLAIN} required password="canary"',
        f'{PLAIN} required password="canary;',
        f"{PLAIN} required password canary;",
        f"{PLAIN} required password==;",
        f'{PLAIN} required; {PLAIN} required password="canary";',
    ],
)
def test_anything_else_is_rejected_without_showing_values(text: str) -> None:
    with pytest.raises(InvalidConfig) as caught:
        parse_jaas(text)
    assert "canary" not in caught.value.message
