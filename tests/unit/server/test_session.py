"""Sessions: which replies hold up the requests behind them, and the order in which replies are sent."""

from __future__ import annotations

from typing import Any, cast

import pytest

from penstock.handlers.offset_commit import ParkedCommit
from penstock.handlers.support.reply import Parked
from penstock.server.session import LARGE_REPLY, PIPELINED_MAX, ClientSession
from penstock.wire.frame import Header


def commit() -> ParkedCommit:
    return ParkedCommit(Header(8, 9, 1, "", 0), {}, [])


class Peer:
    """A connection and a dispatcher in one: returns prepared replies and records what was sent."""

    peer_host, peer_port = "peer", 1

    def __init__(self, *replies: Any) -> None:
        self._replies = list(replies)
        self.sent: list[bytes] = []
        self.flushed_at: list[int] = []
        self.is_paused = False
        self.session = ClientSession(cast(Any, self), "listener", cast(Any, self), lambda: None)
        for _ in replies:
            self.session.frame(memoryview(b""))

    def dispatch(self, frame: memoryview, session: ClientSession) -> Any:
        return self._replies.pop(0)

    def send(self, parts: tuple[bytes, ...]) -> None:
        self.sent += parts

    def send_now(self, parts: tuple[bytes, ...]) -> None:
        self.sent += parts
        self.flushed_at.append(len(self.sent))

    def pause_frames(self) -> None:
        self.is_paused = True

    def resume_frames(self) -> None:
        self.is_paused = False

    def close(self) -> None:
        raise AssertionError("closed")


@pytest.mark.parametrize(("parked", "holds_up"), [(Parked(), True), (commit(), False)])
def test_a_commit_does_not_hold_up_the_requests_behind_it(parked: Parked, holds_up: bool) -> None:
    peer = Peer(parked)
    assert peer.is_paused is holds_up
    parked.ready((b"done",))
    assert (peer.sent, peer.is_paused) == ([b"done"], False)


def test_replies_are_sent_in_the_order_of_their_requests() -> None:
    first, second = commit(), commit()
    peer = Peer(first, second, (b"third",))
    second.ready((b"second",))
    assert peer.sent == []
    first.ready((b"first",))
    assert peer.sent == [b"first", b"second", b"third"]


def test_replies_that_become_ready_one_after_the_other_are_sent_with_the_last() -> None:
    first, second = commit(), commit()
    peer = Peer(first, second)
    first.ready((b"first",))
    assert (peer.sent, peer.flushed_at) == ([b"first"], [])
    second.ready((b"second",))
    assert (peer.sent, peer.flushed_at) == ([b"first", b"second"], [2])


def test_replies_that_are_ready_immediately_wait_for_those_of_the_same_read() -> None:
    peer = Peer(Parked((b"first",)), Parked((b"second",)))
    assert (peer.sent, peer.flushed_at) == ([b"first", b"second"], [])


def test_the_number_of_waiting_commits_is_bounded() -> None:
    waiting = [commit() for _ in range(PIPELINED_MAX)]
    peer = Peer(*waiting)
    assert peer.is_paused
    for index, parked in enumerate(waiting):
        parked.ready((b"%d" % index,))
    assert (peer.is_paused, len(peer.sent)) == (False, PIPELINED_MAX)


def test_the_number_of_replies_behind_a_waiting_commit_is_bounded() -> None:
    waiting = commit()
    replies = [(b"reply",)] * (PIPELINED_MAX - 1)
    peer = Peer(waiting, *replies)
    assert peer.is_paused
    waiting.ready((b"commit",))
    assert (peer.is_paused, len(peer.sent)) == (False, PIPELINED_MAX)
    assert not Peer(commit(), *replies[1:]).is_paused


@pytest.mark.parametrize("reply", [(b"x" * (LARGE_REPLY + 1),), Parked((b"head", b"x" * (LARGE_REPLY + 1)))])
def test_no_request_is_read_behind_a_large_reply_that_waits_for_a_commit(reply: Any) -> None:
    waiting = commit()
    peer = Peer(waiting, reply)
    assert peer.is_paused
    waiting.ready((b"commit",))
    assert not peer.is_paused


def test_a_muted_connection_is_read_only_after_its_wait_is_over_and_its_replies_are_sent() -> None:
    parked = Parked()
    peer = Peer(parked)
    peer.session.mute()
    parked.ready((b"done",))
    assert (peer.sent, peer.is_paused) == ([b"done"], True)
    peer.session.unmute()
    assert (peer.sent, peer.is_paused) == ([b"done"], False)


def test_an_unmuted_connection_still_waits_for_the_reply_that_held_it_up() -> None:
    parked = Parked()
    peer = Peer(parked)
    peer.session.mute()
    peer.session.unmute()
    assert (peer.sent, peer.is_paused) == ([], True)
    parked.ready((b"done",))
    assert (peer.sent, peer.is_paused) == ([b"done"], False)
