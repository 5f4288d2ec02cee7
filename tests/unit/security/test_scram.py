"""SCRAM: both sides, wrong messages, unknown users; scramp is the oracle if it is installed."""

import base64
import re

import pytest

from penstock.security.mechanism import Accepted, AuthenticationFailed, Challenge
from penstock.security.scram import (
    HASHES,
    ScramClient,
    ScramCredential,
    ScramServer,
    credential_from_salted,
    salted_password,
)
from penstock.security.unknown_users import UnknownUsers, shapes_of

SALT = b"0123456789abcdef01234567"
KEY = b"k" * 32


def credential(mechanism: str, password: str = "secret") -> ScramCredential:
    return credential_from_salted(mechanism, SALT, 4096, salted_password(mechanism, password, SALT, 4096))


def server(mechanism: str = "SCRAM-SHA-256", nonce: str = "server") -> ScramServer:
    users = {"alice": credential(mechanism), "a=b,c": credential(mechanism)}
    invent = UnknownUsers(mechanism, KEY, shapes_of(users.values())).credential
    return ScramServer(mechanism, users.get, nonce=nonce, invent=invent)


def challenge(one: ScramServer, message: bytes) -> bytes:
    answer = one.step(message)
    assert isinstance(answer, Challenge)
    return answer.message


def proof_of(answer: bytes, client: ScramClient) -> bytes:
    message = client.step(answer)
    assert message is not None
    return message


@pytest.mark.parametrize("mechanism", HASHES)
@pytest.mark.parametrize("name", ["alice", "a=b,c"])
def test_a_client_and_a_server_that_know_the_same_password_accept_each_other(mechanism: str, name: str) -> None:
    one, client = server(mechanism), ScramClient(mechanism, name, "secret", nonce="client")
    accepted = one.step(proof_of(challenge(one, client.first()), client))
    assert isinstance(accepted, Accepted)
    assert accepted.user == name
    assert client.step(accepted.message) is None


def test_the_exchange_of_rfc_7677() -> None:
    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    stored = credential_from_salted("SCRAM-SHA-256", salt, 4096, salted_password("SCRAM-SHA-256", "pencil", salt, 4096))
    invent = UnknownUsers("SCRAM-SHA-256", KEY, shapes_of([stored])).credential
    one = ScramServer("SCRAM-SHA-256", {"user": stored}.get, nonce="%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0", invent=invent)
    first = challenge(one, b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO")
    assert first == b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    final = one.step(
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    assert final.message == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


@pytest.mark.parametrize("mechanism", HASHES)
def test_scramp_agrees(mechanism: str) -> None:
    scramp = pytest.importorskip("scramp")
    one = server(mechanism)
    client = scramp.ScramClient([mechanism], "alice", "secret")
    client.set_server_first(challenge(one, client.get_client_first().encode()).decode())
    accepted = one.step(client.get_client_final().encode())
    client.set_server_final(accepted.message.decode())

    theirs = scramp.ScramMechanism(mechanism=mechanism)
    stored = theirs.make_auth_info("secret", iteration_count=4096)
    other = theirs.make_server(lambda name: stored)
    ours = ScramClient(mechanism, "alice", "secret", nonce="client")
    other.set_client_first(ours.first().decode())
    other.set_client_final(proof_of(other.get_server_first().encode(), ours).decode())
    assert ours.step(other.get_server_final().encode()) is None


def test_an_unknown_user_takes_the_same_steps_and_sizes_as_a_wrong_password() -> None:
    answers, errors = [], []
    for name in ("alice", "nobody"):
        one, client = server(), ScramClient("SCRAM-SHA-256", name, "wrong", nonce="client")
        answer = challenge(one, client.first())
        answers.append(answer)
        with pytest.raises(AuthenticationFailed) as caught:
            one.step(proof_of(answer, client))
        errors.append(str(caught.value))
    assert len(answers[0]) == len(answers[1])
    assert errors[0] == errors[1]
    assert "nobody" not in errors[1]


def test_the_salt_of_an_unknown_user_is_always_the_same() -> None:
    first = challenge(server(), b"n,,n=nobody,r=x")
    assert first == challenge(server(), b"n,,n=nobody,r=x")
    assert first != challenge(server(), b"n,,n=noone,r=x")


def test_the_keys_of_an_unknown_user_cannot_be_used() -> None:
    one = server()
    nonce = challenge(one, b"n,,n=nobody,r=x").decode().split(",")[0]
    proof = base64.b64encode(bytes(32)).decode()
    with pytest.raises(AuthenticationFailed):
        one.step(f"c=biws,{nonce},p={proof}".encode())


@pytest.mark.parametrize(
    "message",
    [b"", b"n,,", b"y,,n=alice,r=x", b"p=tls-unique,,n=alice,r=x", b"n,,m=1,n=alice,r=x", b"n,,n=,r=x", b"n,,n=alice",
     b"n,,n=alice,r=", b"n,,n=al=2Xice,r=x", b"n,,n=alice,r=x\n", b"\xff", b"n,a=bob,n=alice,r=x"],
)  # fmt: skip
def test_a_malformed_first_message_fails(message: bytes) -> None:
    with pytest.raises(AuthenticationFailed):
        server().step(message)


def test_another_authorization_id_fails_and_an_equal_one_does_not() -> None:
    with pytest.raises(AuthenticationFailed, match="different from username"):
        server().step(b"n,a=bob,n=alice,r=x")
    assert server().step(b"n,a=alice,n=alice,r=x")


@pytest.mark.parametrize(
    ("pattern", "replacement"),
    [("c=biws", "c=eSws"), ("r=clientserver", "r=client"), ("r=clientserver", "r=xclientserver"),
     ("r=clientserver", "r=clientserverx"), ("p=", "p=AAAA"), ("p=.*", "p=AAAA"), ("p=.*", "p=*"), (",p=.*", "")],
)  # fmt: skip
def test_a_changed_final_message_fails(pattern: str, replacement: str) -> None:
    one, client = server(), ScramClient("SCRAM-SHA-256", "alice", "secret", nonce="client")
    final = proof_of(challenge(one, client.first()), client).decode()
    changed = re.sub(pattern, replacement, final)
    assert changed != final
    with pytest.raises(AuthenticationFailed):
        one.step(changed.encode())


def test_a_replayed_final_message_fails() -> None:
    client = ScramClient("SCRAM-SHA-256", "alice", "secret", nonce="client")
    one = server(nonce="first")
    final = proof_of(challenge(one, client.first()), client)
    assert isinstance(one.step(final), Accepted)
    other = server(nonce="second")
    challenge(other, client.first())
    with pytest.raises(AuthenticationFailed):
        other.step(final)


@pytest.mark.parametrize(
    "answer", [b"r=other,s=QQ==,i=4096", b"r=client,s=QQ==,i=4096", b"r=clientx,s=QQ==,i=1", b"e=x"]
)
def test_a_client_does_not_trust_a_malformed_server(answer: bytes) -> None:
    with pytest.raises(AuthenticationFailed):
        ScramClient("SCRAM-SHA-256", "alice", "secret", nonce="client").step(answer)


def test_a_client_checks_the_proof_of_the_server() -> None:
    one, client = server(), ScramClient("SCRAM-SHA-256", "alice", "secret", nonce="client")
    proof_of(challenge(one, client.first()), client)
    with pytest.raises(AuthenticationFailed, match="did not prove"):
        client.step(b"v=" + base64.b64encode(bytes(32)))
