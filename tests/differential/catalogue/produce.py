"""Produce: accepted and rejected batches, with error codes and messages."""

from __future__ import annotations

import gzip
from collections.abc import Mapping

from tests.differential.batches import START, Batch, batch, gzipped, record, varint
from tests.differential.catalogue.metadata import NO_SUCH_ID
from tests.differential.catalogue.requests import PRODUCE_VERSIONS, fetch, fetch_partition, produce
from tests.differential.scenario import scenario
from tests.differential.session import REQUEST_MS_MAX, SILENCE_SECONDS, Session

LONG_AGO, FAR_AHEAD = 1, 4_000_000_000_000


@scenario
def produce_in_every_version(s: Session) -> None:
    topic = s.topic()
    for version in PRODUCE_VERSIONS:
        produce(s, topic, batch(2), version=version)
        produce(s, topic, batch(1), version=version, acks=1, label="acks 1")
        produce(s, topic, batch(1), version=version, partition=9, label="to an unknown partition")
        produce(s, topic, batch(1), version=version, partition=-1, label="to a negative partition")
        if version <= 12:
            produce(s, s.name("none"), batch(1), version=version, label="to an unknown topic")
    produce(s, topic, batch(1), version=13, topic_id=NO_SUCH_ID, label="to an unknown id")
    produce(s, topic, batch(1), label="so that all before it can be read")
    fetch(s, topic, fetch_partition(0), label="all of it")


@scenario
def produce_versions_that_are_advertised_but_refused(s: Session) -> None:
    for version in (0, 1, 2):
        s.body(f"version {version}", 0, version, b"\0\1\0\0\x0f\xa0\0\0\0\0")


@scenario
def produce_with_odd_acks(s: Session) -> None:
    topic = s.topic()
    for acks in (2, -2, 32767):
        for version in (3, 9, 11):
            produce(s, topic, batch(1), version=version, acks=acks, label=f"acks {acks}")


@scenario
def acks_0_has_no_answer_but_an_error_closes(s: Session) -> None:
    topic = s.topic()
    from tests.differential.entities import request_frame

    def send(label: str, records: bytes, partition: int = 0, *, seconds_max: float | None = None) -> None:
        rows = [{"name": topic, "partition_data": [{"index": partition, "records": records}]}]
        frame = request_frame("produce", 9, {"acks": 0, "timeout": 1000, "topic_data": rows})
        s.raw(label, frame, seconds_max=seconds_max)

    # Longer than an error would take: whether there is no answer is under test.
    send("good", batch(1), seconds_max=0.7)
    send("to an unknown partition", batch(1), partition=5)
    send("with a bad checksum", Batch(crc=1).encode())
    fetch(s, topic, fetch_partition(0), label="what arrived")


@scenario
def produce_to_internal_topics(s: Session) -> None:
    for name in ("__consumer_offsets", "__transaction_state"):
        produce(s, name, batch(1), label=name)


def produce_each(s: Session, cases: Mapping[str, bytes | None]) -> None:
    """Send each case to a separate partition, so that cases do not affect each other."""
    topic = s.topic(partitions=len(cases))
    for partition, (label, records) in enumerate(cases.items()):
        produce(s, topic, records, partition=partition, label=label)
    for partition, label in enumerate(cases):
        fetch(s, topic, fetch_partition(0, index=partition), label=f"after {label}")


@scenario
def batches_that_lie(s: Session) -> None:
    s.answer_seconds_max = SILENCE_SECONDS
    three = tuple(record(n) for n in range(3))
    cases: dict[str, bytes | None] = {
        "null records": None,
        "no bytes": b"",
        "half a header": batch(1)[:30],
        "a header without its length": batch(1)[:8],
        "cut in the middle": batch(3)[:-5],
        "two batches": batch(1) + batch(1),
        "a batch and a half": batch(1) + batch(1)[:20],
        "bytes behind": batch(1) + b"\0\0\0",
        "a wrong checksum": Batch(crc=0x12345678).encode(),
        "magic 0": Batch(magic=0).encode(),
        "magic 1": Batch(magic=1).encode(),
        "magic 3": Batch(magic=3).encode(),
        "magic -1": Batch(magic=-1).encode(),
        "length 0": Batch(length=0).encode(),
        "length 13": Batch(length=13).encode(),
        "length 48": Batch(length=48).encode(),
        "length -1": Batch(length=-1).encode(),
        "length beyond the end": Batch(length=1000).encode(),
        "count 0": Batch(count=0).encode(),
        "count 0, delta -1, no records": Batch(records=()).encode(),
        "count -1": Batch(count=-1).encode(),
        "count of one more": Batch(records=three, count=4).encode(),
        "count of one more, delta too": Batch(records=three, count=4, last_offset_delta=3).encode(),
        "count of one less": Batch(records=three, count=2).encode(),
        "count of one less, delta too": Batch(records=three, count=2, last_offset_delta=1).encode(),
        "count of two billion": Batch(records=three, count=2**31 - 1, last_offset_delta=2**31 - 2).encode(),
        "delta too large": Batch(records=three, last_offset_delta=5).encode(),
        "delta too small": Batch(records=three, last_offset_delta=0).encode(),
        "delta negative": Batch(records=three, last_offset_delta=-1).encode(),
        "record deltas with a hole": Batch(records=(record(0), record(2))).encode(),
        "record deltas all 0": Batch(records=(record(0), record(0))).encode(),
        "a base offset of its own": Batch(base_offset=77).encode(),
        "a leader epoch of its own": Batch(leader_epoch=77).encode(),
        "a control batch": Batch(attributes=0x20).encode(),
        "transactional without a producer": Batch(attributes=0x10).encode(),
        "an unknown attribute": Batch(attributes=0x80).encode(),
        "a delete horizon": Batch(attributes=0x40).encode(),
        "log append time by the producer": Batch(attributes=0x08).encode(),
        "a producer without a sequence": Batch(producer_id=5, producer_epoch=0).encode(),
        "a producer without an epoch": Batch(producer_id=5, base_sequence=0).encode(),
        "a sequence without a producer": Batch(base_sequence=5).encode(),
    }
    produce_each(s, cases)


@scenario
def records_that_lie(s: Session) -> None:
    good = record(0)
    cases = {
        "a record length too large": varint(200) + good[1:],
        "a record length too small": varint(2) + good[1:],
        "a negative record length": varint(-1) + good[1:],
        "a negative header count": varint(8) + b"\0\0\0" + varint(1) + b"k" + varint(1) + b"v" + varint(-1),
        "more headers than bytes": varint(8) + b"\0\0\0" + varint(1) + b"k" + varint(1) + b"v" + varint(60),
        "a key longer than the record": varint(8) + b"\0\0\0" + varint(60) + b"k" + varint(1) + b"v" + varint(0),
        "no bytes at all": b"",
        "random bytes": bytes(range(100, 160)),
    }
    plain = {label: Batch(payload=payload).encode() for label, payload in cases.items()}
    squeezed = {
        f"{label}, compressed": Batch(payload=gzip.compress(payload, mtime=0), attributes=1).encode()
        for label, payload in cases.items()
    }
    produce_each(s, plain | squeezed)


@scenario
def codecs(s: Session) -> None:
    topic = s.topic()
    produce(s, topic, gzipped(5), label="gzip")
    fetch(s, topic, fetch_partition(0), label="what is kept")
    for version in (3, 6, 7, 9):
        produce(s, topic, Batch(attributes=4, payload=b"x").encode(), version=version, label="zstd")


@scenario
def garbage_in_place_of_compressed_records(s: Session) -> None:
    garbage = b"not compressed at all"
    produce_each(s, {f"codec {codec}": Batch(attributes=codec, payload=garbage).encode() for codec in range(1, 8)})


@scenario
def recompression_keeps_offsets(s: Session) -> None:
    for kind in ("uncompressed", "gzip", "snappy", "lz4", "zstd"):
        topic = s.topic(kind, configs={"compression.type": kind})
        produce(s, topic, batch(5), label=f"plain to {kind}")
        produce(s, topic, gzipped(3), label=f"gzip to {kind}")
        answer = s.ask("fetch", 11, replica_id=-1, max_wait=0, min_bytes=1, max_bytes=1 << 20, session_epoch=-1,
                       topics=[{"topic": topic, "partitions": [fetch_partition(0)]}])  # fmt: skip
        if isinstance(answer, dict):
            batches = answer["responses"][0]["partitions"][0]["records"]
            shown = ("base_offset", "last_offset_delta", "count", "attributes", "max_timestamp", "crc_good")
            s.note(f"{kind} as read", [{key: one[key] for key in shown} for one in batches])


@scenario
def too_large(s: Session) -> None:
    topic = s.topic(configs={"max.message.bytes": "1000"})
    produce(s, topic, batch(1, value_size=900), label="just right")
    for size in (930, 931, 932, 1200, 100_000):
        produce(s, topic, batch(1, value_size=size), label=f"value of {size}")
    plain = s.topic("plain")
    produce(s, plain, batch(1, value_size=1_048_500), label="a megabyte, just right")
    produce(s, plain, batch(1, value_size=1_048_588), label="a megabyte and a bit")
    small = s.topic("small", configs={"segment.bytes": "1048576", "max.message.bytes": "3000000"})
    produce(s, small, batch(1, value_size=2_000_000), label="larger than a segment")


@scenario
def times(s: Session) -> None:
    topic = s.topic()
    for label, at in (
        ("long ago", LONG_AGO),
        ("far ahead", FAR_AHEAD),
        ("minus one", -1),
        ("minus two", -2),
        ("zero", 0),
    ):
        produce(s, topic, Batch(base_timestamp=at).encode(), label=label)
    bounded = s.topic(
        "bounded", configs={"message.timestamp.before.max.ms": "1000", "message.timestamp.after.max.ms": "1000"}
    )
    for label, at in (("long ago", LONG_AGO), ("far ahead", FAR_AHEAD)):
        for version in (7, 8, 11):
            produce(s, bounded, Batch(base_timestamp=at).encode(), version=version, label=f"{label}, bounded")
    two = Batch(records=(record(0), record(1)), base_timestamp=LONG_AGO).encode()
    produce(s, bounded, two, label="two of long ago, bounded")
    produce(s, topic, Batch(max_timestamp=START + 5).encode(), label="a max timestamp that lies")
    stamped = s.topic("stamped", configs={"message.timestamp.type": "LogAppendTime"})
    for version in (3, 9, 11):
        produce(s, stamped, batch(3), version=version, label="log append time")
    produce(s, stamped, gzipped(3), label="log append time, compressed")
    fetch(s, stamped, fetch_partition(0), label="log append time as read")


@scenario
def compacted_topics_want_keys(s: Session) -> None:
    topic = s.topic(configs={"cleanup.policy": "compact"})
    for version in (3, 7, 8, 11):
        mixed = (record(0), record(1, key=None), record(2), record(3, key=None))
        produce(s, topic, Batch(records=mixed).encode(), version=version, label="two of four without a key")
    produce(s, topic, Batch(records=(record(0, key=b""),)).encode(), label="an empty key")
    produce(s, topic, Batch(records=(record(0, value=None),)).encode(), label="a tombstone")


@scenario
def several_partitions_in_one_request(s: Session) -> None:
    topic = s.topic(partitions=3)
    other = s.topic("u")
    rows = [
        {"name": topic, "partition_data": [
            {"index": 2, "records": batch(1)}, {"index": 0, "records": Batch(crc=1).encode()},
            {"index": 7, "records": batch(1)}, {"index": 1, "records": batch(2)},
        ]},
        {"name": other, "partition_data": [{"index": 0, "records": batch(3)}]},
        {"name": s.name("none"), "partition_data": [{"index": 0, "records": batch(3)}]},
    ]  # fmt: skip
    for version in (3, 8, 9, 11):
        s.call("produce", version, acks=-1, timeout=REQUEST_MS_MAX, topic_data=rows)
    s.call("produce", 11, "nothing", acks=-1, timeout=REQUEST_MS_MAX, topic_data=[])
    s.call("produce", 11, "a topic of no partitions", acks=-1, timeout=REQUEST_MS_MAX, topic_data=[{"name": topic}])


@scenario
def a_transactional_id_that_was_never_opened(s: Session) -> None:
    topic = s.topic()
    body = Batch(attributes=0x10, producer_id=4242, producer_epoch=0, base_sequence=0).encode()
    for version in (9, 11, 12):
        produce(s, topic, body, version=version, transactional_id=s.name("x"), label="transactional")
