"""Requests of other nodes pass while clients wait; then all held requests are answered, in order."""

from typing import Any, cast

from penstock.handlers.support.reply import Parked, Parts
from penstock.server.gate import Gate
from penstock.wire.api import ApiKey
from penstock.wire.frame import MalformedRequest, request_head

SESSION = cast(Any, None)


def frame(api_key: int, correlation_id: int = 1) -> memoryview:
    return memoryview(bytearray(request_head(api_key, 0 if api_key != 3 else 1, correlation_id, "c", 0)[4:]))


class Answers:
    def __init__(self) -> None:
        self.seen: list[int] = []
        self.reply: Parts | Parked = (b"reply",)

    def __call__(self, frame: memoryview, session: Any) -> Parts | Parked:
        self.seen.append(int.from_bytes(frame[4:8], "big"))
        return self.reply


def held(gate: Gate, number: int) -> Parked:
    parked = gate.dispatch(frame(ApiKey.METADATA, number), SESSION)
    assert isinstance(parked, Parked) and parked.parts is None
    parked.on_ready = lambda: None
    return parked


def test_the_quorum_is_answered_immediately_and_clients_when_the_gate_opens() -> None:
    answers = Answers()
    gate = Gate(answers)
    first, second = held(gate, 1), held(gate, 2)
    assert gate.dispatch(frame(ApiKey.VOTE, 3), SESSION) == (b"reply",)
    assert answers.seen == [3]
    gate.open()
    assert answers.seen == [3, 1, 2]
    assert first.parts == second.parts == (b"reply",)
    assert gate.dispatch(frame(ApiKey.METADATA, 4), SESSION) == (b"reply",)


def test_a_reply_that_has_to_wait_is_passed_on_when_it_is_ready() -> None:
    answers = Answers()
    gate = Gate(answers)
    parked = held(gate, 1)
    answers.reply = later = Parked()
    gate.open()
    assert parked.parts is None
    later.ready((b"late",))
    assert parked.parts == (b"late",)


def test_a_client_that_left_is_not_answered_and_a_malformed_request_closes_its_connection() -> None:
    answers = Answers()
    gate = Gate(answers)
    gone, bad = held(gate, 1), held(gate, 2)
    gone.abandon()

    def refuse(frame: memoryview, session: Any) -> Parts | Parked:
        raise MalformedRequest("no")

    gate._dispatch = refuse
    gate.open()
    assert gone.parts is None
    assert bad.failed
