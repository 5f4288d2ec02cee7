"""The states of a SASL connection, and every frame that may or must not come next."""

from __future__ import annotations

import base64
import struct
import time
from collections.abc import Callable, Iterator

from kio.schema.index import api_key_map

from penstock.security.scram import ScramClient, salted_password
from tests.differential.entities import framed, read_response, request_frame
from tests.differential.scenario import on_listener, scenario
from tests.differential.secured import OTHER, OTHER_PASSWORD, PASSWORD, SESSION_MS, USER
from tests.differential.session import CLOSED, SILENT, Session

OPEN_SECONDS = 0.5
"""How long a connection must stay silent to count as open."""
MECHANISM_IDS = {"SCRAM-SHA-256": 1, "SCRAM-SHA-512": 2}

State = Callable[[Session], None]


def create_users(s: Session) -> None:
    """Create the users of SCRAM; their salt is fixed, so that challenges compare."""
    plain = s.on("PLAINTEXT")
    for mechanism, number in MECHANISM_IDS.items():
        salt = b"0123456789abcdef01234567"
        upsertion = {
            "name": USER,
            "mechanism": number,
            "iterations": 4096,
            "salt": salt,
            "salted_password": salted_password(mechanism, PASSWORD, salt, 4096),
        }
        plain.ask("alter_user_scram_credentials", 0, deletions=[], upsertions=[upsertion])
    plain.hang_up()
    for mechanism in MECHANISM_IDS:
        while not _logged_in(s, mechanism):
            s.hang_up()
        s.hang_up()


def _logged_in(s: Session, mechanism: str) -> bool:
    s.ask("sasl_handshake", 1, mechanism=mechanism)
    client = ScramClient(mechanism, USER, PASSWORD, nonce="nonce")
    first = s.ask("sasl_authenticate", 1, auth_bytes=client.first())
    if isinstance(first, str) or not first["auth_bytes"]:
        return False
    final = client.step(bytes.fromhex(first["auth_bytes"]))
    last = s.ask("sasl_authenticate", 1, auth_bytes=final)
    return isinstance(last, dict) and last["error_code"].startswith("0 ")


# States


def start(s: Session) -> None:
    pass


def greeted(s: Session) -> None:
    s.ask("api_versions", 3, client_software_name="a", client_software_version="1")


def greeted_in_vain(s: Session) -> None:
    s.exchange(framed(struct.pack(">hhi", 18, 99, 7) + b"\xff\xff"))


def shaken(s: Session) -> None:
    s.ask("sasl_handshake", 1, mechanism="PLAIN")


def shaken_v0(s: Session) -> None:
    s.ask("sasl_handshake", 0, mechanism="PLAIN")


def greeted_and_shaken(s: Session) -> None:
    greeted(s)
    shaken(s)


def challenged(s: Session) -> None:
    s.ask("sasl_handshake", 1, mechanism="SCRAM-SHA-256")
    s.ask("sasl_authenticate", 1, auth_bytes=b"n,,n=alice,r=nonce")


def challenged_v0(s: Session) -> None:
    s.ask("sasl_handshake", 0, mechanism="SCRAM-SHA-256")
    s.exchange(framed(b"n,,n=alice,r=nonce"))


def authenticated(s: Session) -> None:
    shaken(s)
    s.ask("sasl_authenticate", 1, auth_bytes=_plain())


def authenticated_v0(s: Session) -> None:
    shaken_v0(s)
    s.exchange(framed(_plain()))


STATES: tuple[State, ...] = (
    start, greeted, greeted_in_vain, shaken, shaken_v0, greeted_and_shaken, challenged, challenged_v0, authenticated,
    authenticated_v0,
)  # fmt: skip


def _plain(user: str = USER, password: str = PASSWORD) -> bytes:
    return f"\0{user}\0{password}".encode()


def frames() -> Iterator[tuple[str, bytes]]:
    """Yield what a client may send next, with a label."""
    for version in (0, 3, 4):
        values = {"client_software_name": "a", "client_software_version": "1"}
        yield f"api_versions v{version}", request_frame("api_versions", version, values)
    yield "api_versions with a bad name", request_frame("api_versions", 3, {"client_software_name": "!"})
    yield "api_versions v99", framed(struct.pack(">hhi", 18, 99, 7) + b"\xff\xff")
    for version in (0, 1):
        for mechanism in ("PLAIN", "SCRAM-SHA-512", "plain", "GSSAPI", ""):
            yield (
                f"sasl_handshake v{version} {mechanism}",
                request_frame("sasl_handshake", version, {"mechanism": mechanism}),
            )
    yield "sasl_handshake v2", framed(struct.pack(">hhi", 17, 2, 7) + b"\xff\xff\0\5PLAIN")
    for version in (0, 1, 2):
        for label, token in (
            ("good", _plain()),
            ("wrong", _plain(password="x")),
            ("unknown", _plain("eve")),
            ("empty", b""),
        ):
            given = {"auth_bytes": token}
            yield f"sasl_authenticate v{version} {label}", request_frame("sasl_authenticate", version, given)
    yield "sasl_authenticate v3", framed(struct.pack(">hhi", 36, 3, 7) + b"\xff\xff\0\1\0")
    yield "sasl_authenticate cut", framed(request_frame("sasl_authenticate", 1, {"auth_bytes": _plain()})[4:-3])
    yield "a good token", framed(_plain())
    yield "a wrong token", framed(_plain(password="x"))
    yield "an empty frame", framed(b"")
    yield "half a header", framed(b"\0\x12\0")
    yield "an unknown key", framed(struct.pack(">hhi", 999, 0, 7) + b"\xff\xff")
    yield "text", framed(b"GET / HTTP/1.1")
    yield "too large", struct.pack(">i", 524_289) + b"\0\x11\0\1"
    yield "a negative size", struct.pack(">i", -1)


def _see(s: Session, state: State, label: str, frame: bytes) -> None:
    """Record the response to a frame, and whether the connection stays open."""
    state(s)
    got = s.exchange(frame, seconds_max=2.0)
    outcome: object = got if isinstance(got, str) else got.hex()
    if isinstance(got, bytes):
        api = label.partition(" ")[0]
        if api in api_key_map.values():
            outcome = _decoded(frame, got)
        then = s.receive(seconds_max=OPEN_SECONDS)
        outcome = {"response": outcome, "then": "open" if then == SILENT else "closed" if then == CLOSED else "more"}
    s.hang_up()
    s.note(f"{state.__name__}, then {label}", outcome)


def _decoded(frame: bytes, got: bytes) -> object:
    key, version = struct.unpack(">hh", frame[4:8])
    if key == 18 and version == 99:
        return got.hex()[:20]
    try:
        answer = read_response(api_key_map[key], version, got)
    except Exception:
        return got.hex()
    if key == 18:
        return {"error_code": answer["error_code"]}
    if "mechanisms" in answer:
        answer["mechanisms"].sort()  # Kafka's order is that of a hash table
    if "auth_bytes" in answer:
        # The server's nonce is random, and so is its signature.
        answer["auth_bytes"] = len(answer["auth_bytes"])
    return answer


def _state_scenario(state: State) -> None:
    @on_listener("SASL")
    def run(s: Session) -> None:
        create_users(s)
        for label, frame in frames():
            _see(s, state, label, frame)

    run.__name__ = f"sasl_{state.__name__}"
    scenario(run)


for each in STATES:
    _state_scenario(each)


@scenario
@on_listener("SASL")
def other_requests_while_authenticating(s: Session) -> None:
    for api, version in ENDS.items():
        for state in (start, greeted, shaken):
            frame = request_frame(api, version, VALUES.get(api, {}))
            _see(s, state, f"{api} v{version}", frame)


# Latest versions of both brokers. Kafka's client APIs; those between nodes are refused elsewhere.
ENDS = {
    "produce": 11, "fetch": 16, "list_offsets": 9, "metadata": 12, "offset_commit": 9, "offset_fetch": 9,
    "find_coordinator": 6, "join_group": 9, "heartbeat": 4, "leave_group": 5, "sync_group": 5, "describe_groups": 5,
    "list_groups": 5, "create_topics": 7, "delete_topics": 6, "delete_records": 2, "init_producer_id": 5,
    "offset_for_leader_epoch": 4, "add_partitions_to_txn": 3, "add_offsets_to_txn": 4, "end_txn": 5,
    "txn_offset_commit": 4, "describe_acls": 3, "create_acls": 3, "delete_acls": 3, "describe_configs": 4,
    "alter_configs": 2, "describe_log_dirs": 4, "create_partitions": 3, "delete_groups": 2, "elect_leaders": 2,
    "incremental_alter_configs": 1, "alter_partition_reassignments": 0, "list_partition_reassignments": 0,
    "offset_delete": 0, "describe_client_quotas": 1, "alter_client_quotas": 1, "describe_user_scram_credentials": 0,
    "alter_user_scram_credentials": 0, "update_features": 1, "describe_cluster": 1, "describe_producers": 0,
    "describe_transactions": 0, "list_transactions": 1, "consumer_group_heartbeat": 1, "consumer_group_describe": 1,
    "describe_topic_partitions": 0, "list_config_resources": 1,
}  # fmt: skip
VALUES: dict[str, dict[str, object]] = {
    "metadata": {"topics": [{"name": "t"}]},
    "create_topics": {"topics": [{"name": "t", "num_partitions": 1, "replication_factor": 1, "configs": []}]},
}


SCRAM_FIRST = {
    "a known user": b"n,,n=alice,r=nonce",
    "an authorization id": b"n,a=alice,n=alice,r=nonce",
    "another authorization id": b"n,a=bob,n=alice,r=nonce",
    "channel binding": b"p=tls-unique,,n=alice,r=nonce",
    "binding supported": b"y,,n=alice,r=nonce",
    "extensions": b"n,,n=alice,r=nonce,x=1",
    "a token": b"n,,n=alice,r=nonce,tokenauth=true",
    "no nonce": b"n,,n=alice",
    "an empty nonce": b"n,,n=alice,r=",
    "a comma in the nonce": b"n,,n=alice,r=a,b",
    "no user": b"n,,n=,r=nonce",
    "a reserved field": b"n,,m=x,n=alice,r=nonce",
    "an escaped user": b"n,,n=al=2Cice=3D,r=nonce",
    "a wrong escape": b"n,,n=al=41,r=nonce",
    "not text": b"n,,n=\xff,r=nonce",
    "garbage": b"hello",
    "nothing": b"",
}


@scenario
@on_listener("SASL")
def scram_first_messages(s: Session) -> None:
    create_users(s)
    for mechanism in MECHANISM_IDS:
        for label, message in SCRAM_FIRST.items():
            s.ask("sasl_handshake", 1, mechanism=mechanism)
            got = s.ask("sasl_authenticate", 2, auth_bytes=message)
            if isinstance(got, dict):
                text = bytes.fromhex(got["auth_bytes"])
                got["auth_bytes"] = text.partition(b",")[2].decode() and "a challenge"
            s.note(f"{mechanism} {label}", got)
            s.hang_up()


def _final(final: bytes, change: str) -> bytes:
    text = final.decode()
    without_proof, _, proof = text.partition(",p=")
    binding, _, nonce = without_proof.partition(",r=")
    return {
        "right": final,
        "a wrong proof": f"{without_proof},p={base64.b64encode(bytes(len(base64.b64decode(proof)))).decode()}".encode(),
        "a short proof": f"{without_proof},p=AAAA".encode(),
        "no proof": without_proof.encode(),
        "no base64": f"{without_proof},p=%%%".encode(),
        "another binding": text.replace(binding, "c=" + base64.b64encode(b"y,,").decode()).encode(),
        "a longer nonce": f"{binding},r=x{nonce},p={proof}".encode(),
        "a shorter nonce": f"{binding},r={nonce[:-1]},p={proof}".encode(),
        "the client's nonce": f"{binding},r=nonce,p={proof}".encode(),
        "an extension": f"{without_proof},x=1,p={proof}".encode(),
        "garbage": b"hello",
        "nothing": b"",
        "the first message again": b"n,,n=alice,r=nonce",
    }[change]


@scenario
@on_listener("SASL")
def scram_final_messages(s: Session) -> None:
    create_users(s)
    changes = (
        "right", "a wrong proof", "a short proof", "no proof", "no base64", "another binding", "a longer nonce",
        "a shorter nonce", "the client's nonce", "an extension", "garbage", "nothing", "the first message again",
    )  # fmt: skip
    for mechanism in MECHANISM_IDS:
        for change in changes:
            client = ScramClient(mechanism, USER, PASSWORD, nonce="nonce")
            s.ask("sasl_handshake", 1, mechanism=mechanism)
            first = s.ask("sasl_authenticate", 2, auth_bytes=client.first())
            assert isinstance(first, dict)
            final = client.step(bytes.fromhex(first["auth_bytes"]))
            assert final is not None
            got = s.ask("sasl_authenticate", 2, auth_bytes=_final(final, change))
            if isinstance(got, dict):
                got["auth_bytes"] = len(got["auth_bytes"])
            s.note(f"{mechanism} {change}", got)
            s.hang_up()


@scenario
@on_listener("SASL")
def plain_messages(s: Session) -> None:
    for label, message in {
        "right": _plain(),
        "an authorization id": b"alice\0alice\0wonderland",
        "another authorization id": b"bob\0alice\0wonderland",
        "a wrong password": _plain(password="x"),
        "an unknown user": _plain("eve"),
        "no user": b"\0\0wonderland",
        "no password": b"\0alice\0",
        "two tokens": b"\0alice",
        "four tokens": b"\0alice\0wonderland\0",
        "not text": b"\0\xff\0x",
        "nothing": b"",
    }.items():
        for version in (0, 1, 2):
            s.ask("sasl_handshake", 1, mechanism="PLAIN")
            s.call("sasl_authenticate", version, label, auth_bytes=message)
            s.hang_up()


def _log_in(s: Session, label: str, user: str = USER, password: str = PASSWORD, *, mechanism: str = "PLAIN") -> None:
    answer = s.ask("sasl_handshake", 1, mechanism=mechanism)
    s.note(f"{label}: handshake", answer if isinstance(answer, str) else answer["error_code"])
    token = _plain(user, password) if mechanism == "PLAIN" else f"n,,n={user},r=nonce".encode()
    answer = s.ask("sasl_authenticate", 1, auth_bytes=token)
    if isinstance(answer, dict) and answer["auth_bytes"]:
        answer["auth_bytes"] = "a challenge"
    s.note(f"{label}: token", answer)


@scenario
@on_listener("SESSIONS")
def sessions_that_end(s: Session) -> None:
    create_users(s)
    _log_in(s, "first login")
    s.call("metadata", 12, "in the session", topics=[])
    _log_in(s, "again")
    _log_in(s, "again too early")
    s.hang_up()
    for label, user, password, mechanism in (
        ("again", USER, PASSWORD, "PLAIN"),
        ("again with a wrong password", USER, "x", "PLAIN"),
        ("again as another user", OTHER, OTHER_PASSWORD, "PLAIN"),
        ("again with another mechanism", USER, PASSWORD, "SCRAM-SHA-256"),
        ("again with an unknown mechanism", USER, PASSWORD, "GSSAPI"),
    ):
        _log_in(s, "login")
        time.sleep(1.2)
        _log_in(s, label, user, password, mechanism=mechanism)
        answer = s.ask("list_groups", 5)
        s.note(f"{label}: a request", answer if isinstance(answer, str) else answer["error_code"])
        s.hang_up()
    for between in ("handshake", "nothing"):
        _log_in(s, "login")
        time.sleep(1.2)
        if between == "handshake":
            s.ask("sasl_handshake", 1, mechanism="PLAIN")
        answer = s.ask("list_groups", 5)
        s.note(f"a request after {between}", answer if isinstance(answer, str) else answer["error_code"])
        s.hang_up()
    _log_in(s, "login")
    time.sleep(SESSION_MS / 1000 + 0.5)
    answer = s.ask("list_groups", 5)
    s.note("a request after the end", answer if isinstance(answer, str) else answer["error_code"])
    s.hang_up()
    _log_in(s, "login")
    time.sleep(SESSION_MS / 1000 + 0.5)
    _log_in(s, "after the end")
    answer = s.ask("list_groups", 5)
    s.note("a request after the second login", answer if isinstance(answer, str) else answer["error_code"])
