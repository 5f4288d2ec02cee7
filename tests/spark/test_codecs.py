"""Tests of codecs on real Spark: JSON, Avro, Protobuf, the registry's wire format, and dead letters."""

from __future__ import annotations

import io
import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fastavro
import pytest

from penstock.actions.dead_letters.dead_letter import parse_dead_letter
from penstock.actions.record_format import LineRecord
from penstock_spark.codecs import Avro, Json, Protobuf, Schemas, accepted, decoded, letters
from penstock_spark.codecs.schemas import sealed
from tests.spark.log import Log

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NewTopic = Callable[..., str]
OLD: dict[str, Any] = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
NEW: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "note", "type": ["null", "string"], "default": None},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}, "default": 0},
        {"name": "tags", "type": {"type": "array", "items": "string"}, "default": []},
    ],
}


def frame_of(spark: SparkSession, values: list[bytes | None]) -> DataFrame:
    return spark.createDataFrame([(value,) for value in values], "value binary")


def rows_of(frame: DataFrame) -> list[tuple[Any, str | None]]:
    return [(row.data, row.error) for row in frame.collect()]


def avro(schema: dict[str, Any], row: dict[str, Any]) -> bytes:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, schema, row)
    return stream.getvalue()


def test_json_with_a_schema_separates_good_from_bad(spark: SparkSession) -> None:
    values = [b'{"id": 1, "x": 2.5}', b"{", None, b'{"x": 1}', b'{"id": "text"}', b'{"id": 2, "x": -1}']
    codec = Json("id BIGINT, x DOUBLE", required=["id"])
    rows = rows_of(decoded(frame_of(spark, values), codec, rules={"x is negative": "data.x >= 0"}))
    assert [error and error.split(":")[0] for _, error in rows] == [
        None, "NotJson", "NoValue", "MissingField", "NotJson", "RuleBroken",
    ]  # fmt: skip
    assert rows[0][0].asDict() == {"id": 1, "x": 2.5}


def test_json_without_a_schema_is_a_variant(spark: SparkSession) -> None:
    rows = decoded(frame_of(spark, [b'{"a": {"b": [1, 2]}}', b"nonsense"]), Json())
    found = rows.selectExpr("variant_get(data, '$.a.b[1]', 'int') b", "error").collect()
    assert [(row.b, row.error) for row in found] == [(2, None), (None, "NotJson: the value is not JSON")]


class Registry(BaseHTTPRequestHandler):
    """A schema registry with two schemas."""

    def do_GET(self) -> None:
        schema = {"/schemas/ids/1": OLD, "/schemas/ids/2": NEW}.get(self.path)
        self.send_response(200 if schema else 404)
        self.end_headers()
        self.wfile.write(json.dumps({"schema": json.dumps(schema)} if schema else {"error_code": 40403}).encode())

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing."""


@pytest.fixture
def registry() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), Registry)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_avro_of_older_and_newer_writers_is_read_with_one_schema(
    spark: SparkSession, registry: str, tmp_path: Path
) -> None:
    (tmp_path / "1.avsc").write_text(json.dumps(OLD))
    (tmp_path / "2.avsc").write_text(json.dumps(NEW))
    values = [
        sealed(1, avro(OLD, {"id": 1})),
        sealed(2, avro(NEW, {"id": 2, "note": "hi", "at": 86_400_000, "tags": ["a"]})),
        sealed(9, b"\x02"),
        b"\x05rest",
        None,
        sealed(1, avro(OLD, {"id": 1}) + b"left over"),
    ]
    frame = frame_of(spark, values)
    for where in (registry, str(tmp_path)):
        rows = rows_of(decoded(frame, Avro(json.dumps(NEW), Schemas(where))))
        assert [error and error.split(":")[0] for _, error in rows] == [
            None, None, "BadRow", "BadRow", "NoValue", "ValueError",
        ]  # fmt: skip
        assert (rows[0][0].id, rows[0][0].note, rows[0][0].tags) == (1, None, [])
        assert (rows[1][0].note, rows[1][0].at.day, rows[1][0].tags) == ("hi", 2, ["a"])


def test_avro_survives_a_round_trip(spark: SparkSession) -> None:
    codec = Avro(json.dumps(OLD))
    frame = spark.range(3).selectExpr("named_struct('id', id) as data")
    written = frame.select(codec.encode(frame["data"]).alias("value"))
    assert [row.id for row in accepted(decoded(written, codec)).collect()] == [0, 1, 2]
    with pytest.raises(Exception, match="the schema file"):
        decoded(written, Avro("missing.avsc"))


def order_descriptors() -> bytes:
    """Return the output of protoc for: message Order { int64 id; string note; repeated int32 lines; Kind kind; ... }"""
    from google.protobuf import descriptor_pb2

    files = descriptor_pb2.FileDescriptorSet()
    file = files.file.add(name="order.proto", package="shop", syntax="proto3")
    kind = file.enum_type.add(name="Kind")
    kind.value.add(name="RETAIL", number=0)
    kind.value.add(name="TRADE", number=1)
    address = file.message_type.add(name="Address")
    address.field.add(name="city", number=1, type=9, label=1)
    order = file.message_type.add(name="Order")
    order.field.add(name="id", number=1, type=3, label=1)
    order.field.add(name="note", number=2, type=9, label=1)
    order.field.add(name="lines", number=3, type=5, label=3)
    order.field.add(name="kind", number=4, type=14, label=1, type_name=".shop.Kind")
    order.field.add(name="to", number=5, type=11, label=1, type_name=".shop.Address")
    return bytes(files.SerializeToString())


def test_protobuf_bare_and_in_the_wire_format(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "order.desc"
    path.write_bytes(order_descriptors())
    # id 150, note "hi", lines [1, 2], kind TRADE, to {city: "Oslo"}
    payload = bytes.fromhex("0896011202686918011802200 12a060a044f736c6f".replace(" ", ""))
    bare = rows_of(decoded(frame_of(spark, [payload, b"\xff\xff"]), Protobuf(str(path), "shop.Order")))
    assert bare[0][0].asDict(recursive=True) == {
        "id": 150, "note": "hi", "lines": [1, 2], "kind": "TRADE", "to": {"city": "Oslo"},
    }  # fmt: skip
    assert bare[1][0] is None and bare[1][1] is not None
    wire = frame_of(spark, [sealed(7, b"\x02\x02" + payload), payload])
    found = rows_of(decoded(wire, Protobuf(str(path), "shop.Order", is_wire_format=True)))
    assert found[0][0].id == 150 and str(found[1][1]).startswith("BadRow")
    with pytest.raises(Exception, match=r"no message 'shop.Ordr'. Did you mean 'shop.Order'"):
        decoded(wire, Protobuf(str(path), "shop.Ordr"))


def test_dead_letters_are_read_by_the_dlq_commands(spark: SparkSession, log: Log, new_topic: NewTopic) -> None:
    source, dead = new_topic(), new_topic()
    log.fill(source, ['{"id": 1}', "rubbish"], headers=[("trace", b"t1")])
    reader = spark.read.format("penstock").option("kafka.bootstrap.servers", log.bootstrap)
    frame = reader.options(subscribe=source, includeHeaders="true").load()
    bad = letters(decoded(frame, Json("id BIGINT")), group="test")
    writer = bad.write.format("penstock").option("kafka.bootstrap.servers", log.bootstrap)
    writer.option("topic", dead).mode("append").save()
    [row] = reader.options(subscribe=dead, includeHeaders="true").load().collect()
    headers = [(one.key, bytes(one.value)) for one in row.headers]
    letter = parse_dead_letter(LineRecord(bytes(row.key), bytes(row.value), headers))
    assert letter.death is not None and bytes(row.value) == b"rubbish"
    assert (letter.death.topic, letter.death.partition, letter.death.offset) == (source, 0, 1)
    assert (letter.death.error_class, letter.death.group) == ("NotJson", "test")
    assert list(letter.record.headers) == [("trace", b"t1")], "the record's headers are unchanged"
