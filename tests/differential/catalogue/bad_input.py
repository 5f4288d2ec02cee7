"""Frames that no client should send: does the broker respond or close the connection?"""

from __future__ import annotations

import struct

from tests.differential.entities import framed, request_frame
from tests.differential.scenario import scenario
from tests.differential.session import Session


def header(api_key: int, version: int, *, client: bytes = b"\xff\xff", tail: bytes = b"") -> bytes:
    return struct.pack(">hhi", api_key, version, 7) + client + tail


@scenario
def bad_lengths(s: Session) -> None:
    for length in (-1, -(2**31), 0, 1, 3, 2**31 - 1, 100 * 1024 * 1024 + 1):
        s.raw(f"length {length}", struct.pack(">i", length) + b"\0" * min(max(length, 0), 3))
    s.raw("HTTP", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    s.raw("TLS", bytes.fromhex("16030100a5010000a10303"))
    s.raw("half a header", framed(b"\0\x12\0"))


@scenario
def unknown_keys_and_versions(s: Session) -> None:
    for key in (4, 5, 6, 7, 93, 500, -1, 32767):
        s.raw(f"API {key}", framed(header(key, 0)))
    for key, version in (
        (0, 14),
        (1, 3),
        (1, 19),
        (2, 0),
        (2, 12),
        (3, 14),
        (3, -1),
        (19, 1),
        (19, 8),
        (60, 3),
        (75, 1),
    ):
        s.raw(f"API {key} version {version}", framed(header(key, version)))
    for key in (52, 53, 54, 56, 58, 62, 63, 67, 70, 73, 82):
        s.raw(f"API {key}, which is between brokers", framed(header(key, 0, tail=b"\0")))


@scenario
def bodies_cut_short(s: Session) -> None:
    whole = {
        "metadata v4": request_frame("metadata", 4, {"topics": [{"name": "abc"}]}),
        "metadata v12": request_frame("metadata", 12, {"topics": [{"name": "abc"}]}),
        "list offsets v7": request_frame(
            "list_offsets", 7, {"topics": [{"name": "abc", "partitions": [{"timestamp": -1}]}]}
        ),
        "fetch v11": request_frame("fetch", 11, {"topics": [{"topic": "abc", "partitions": [{}]}]}),
        "fetch v12": request_frame("fetch", 12, {"topics": [{"topic": "abc", "partitions": [{}]}]}),
        "produce v9": request_frame("produce", 9, {"acks": 1, "topic_data": [{"name": "abc"}]}),
        "create topics v7": request_frame("create_topics", 7, {"topics": [{"name": "abc"}]}),
        "api versions v3": request_frame(
            "api_versions", 3, {"client_software_name": "x", "client_software_version": "1"}
        ),
    }
    for label, frame in whole.items():
        for missing in (1, 2, 5):
            s.raw(f"{label}, {missing} bytes short", framed(frame[4:-missing]))


@scenario
def bytes_behind_the_body(s: Session) -> None:
    frame = request_frame("metadata", 9, {"topics": [], "allow_auto_topic_creation": False})
    got = s.exchange(framed(frame[4:] + b"extra bytes"))
    s.note("metadata v9", got if isinstance(got, str) else "answered")


@scenario
def counts_that_lie(s: Session) -> None:
    for count in (2**31 - 1, -2, -(2**31), 1_000_000):
        got = s.exchange(framed(header(3, 1) + struct.pack(">i", count)))
        s.note(f"metadata v1, {count} topics", got if isinstance(got, str) else "answered with all topics")
        s.body(f"create topics v2, {count} topics", 19, 2, struct.pack(">i", count))
        s.body(f"fetch v4, {count} topics", 1, 4, struct.pack(">iiiibi", -1, 0, 1, 1, 0, count))
        s.body(f"produce v3, {count} topics", 0, 3, struct.pack(">hhii", -1, 1, 1000, count))
        s.body(f"list offsets v1, {count} topics", 2, 1, struct.pack(">ii", -1, count))
    huge = b"\xff\xff\xff\xff\x0f"
    s.body("metadata v12, a huge varint count", 3, 12, huge, flexible=True)
    s.body(
        "fetch v12, a huge varint count", 1, 12, struct.pack(">iiiibii", -1, 0, 1, 1, 0, 0, -1) + huge, flexible=True
    )
    s.body("produce v9, a huge varint count", 0, 9, b"\0" + struct.pack(">hi", 1, 1000) + huge, flexible=True)
    s.body("a varint that never ends", 3, 12, b"\xff" * 12, flexible=True)


@scenario
def nulls_where_none_may_be(s: Session) -> None:
    s.body("metadata v0, null topics", 3, 0, struct.pack(">i", -1))
    s.body("metadata v1, a null name", 3, 1, struct.pack(">ih", 1, -1))
    s.body("metadata v9, a null name", 3, 9, b"\x02\x00\x00" + b"\0\0\0\0", flexible=True)
    s.body("metadata v1, a name of length -2", 3, 1, struct.pack(">ih", 1, -2))
    s.body("metadata v1, a name longer than the frame", 3, 1, struct.pack(">ih", 1, 500) + b"abc")
    s.body("create topics v2, null topics", 19, 2, struct.pack(">iib", -1, 1000, 0))
    s.body("delete topics v1, null topics", 20, 1, struct.pack(">ii", -1, 1000))
    s.body("fetch v4, null topics", 1, 4, struct.pack(">iiiibi", -1, 0, 1, 1, 0, -1))
    s.body("produce v3, null topics", 0, 3, struct.pack(">hhii", -1, 1, 1000, -1))
    s.body("list offsets v1, null topics", 2, 1, struct.pack(">ii", -1, -1))
    s.body("describe configs v1, null resources", 32, 1, struct.pack(">ib", -1, 0))


@scenario
def client_ids(s: Session) -> None:
    body = struct.pack(">i", 0)
    for label, client in (
        ("null", b"\xff\xff"),
        ("empty", b"\0\0"),
        ("not UTF-8", b"\0\x03\xff\xfe\xfd"),
        ("longer than the frame", b"\x7f\xff"),
        ("of length -2", b"\xff\xfe"),
    ):
        got = s.exchange(framed(header(3, 1, client=client) + body))
        s.note(f"client id {label}", got if isinstance(got, str) else "answered")


@scenario
def names_that_are_not_text(s: Session) -> None:
    for name in (b"\xff\xfe\xfd", b"ab\xc3", b"\xed\xa0\x80"):
        got = s.exchange(framed(header(3, 1) + struct.pack(">ih", 1, len(name)) + name))
        s.note(f"metadata v1 of {name.hex()}", got if isinstance(got, str) else {"tail": got[-20:].hex()})


@scenario
def tagged_fields(s: Session) -> None:
    """Send headers with unknown tagged fields, valid and invalid."""
    body = b"\x01" + b"\0\0\0"  # metadata v9: an empty list of topics, three flags
    for label, tags in (
        ("one unknown", b"\x01\x63\x03abc"),
        ("two unknown", b"\x02\x63\x01a\x64\x01b"),
        ("the same twice", b"\x02\x63\x01a\x63\x01b"),
        ("out of order", b"\x02\x64\x01a\x63\x01b"),
        ("larger than the frame", b"\x01\x63\x7fabc"),
        ("more than there are", b"\x09\x63\x01a"),
        ("two billion", b"\xff\xff\xff\xff\x07"),
    ):
        got = s.exchange(framed(header(3, 9, tail=tags) + body + b"\0"))
        s.note(f"in the header: {label}", got if isinstance(got, str) else "answered")
        got = s.exchange(framed(header(3, 9, tail=b"\0") + body + tags))
        s.note(f"in the body: {label}", got if isinstance(got, str) else "answered")


@scenario
def correlation_ids_are_echoed(s: Session) -> None:
    for number in (0, -1, 2**31 - 1, -(2**31)):
        got = s.exchange(request_frame("api_versions", 0, {}, correlation_id=number))
        s.note(f"correlation id {number}", got if isinstance(got, str) else got[:4].hex())
