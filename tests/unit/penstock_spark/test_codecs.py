"""Codecs without Spark: the columns of a schema, the rows of values, and what is said about bad ones."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2

from penstock_client.errors import PenstockClientError
from penstock_spark.codecs import Avro, Protobuf, Schemas
from penstock_spark.codecs.schemas import BadRow, opened, sealed
from penstock_spark.codecs.vectors import decode_all, one_by_one

# -- Avro ------------------------------------------------------------------------------------


def record(*fields: tuple[str, Any], name: str = "Order") -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": field, "type": kind} for field, kind in fields]}


def avro(schema: dict[str, Any], row: dict[str, Any]) -> bytes:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), row)
    return stream.getvalue()


@pytest.mark.parametrize(
    ("kind", "column"),
    [
        ("string", "string"),
        ("long", "bigint"),
        (["null", "int"], "int"),
        ({"type": "array", "items": "string"}, "array<string>"),
        ({"type": "map", "values": ["null", "double"]}, "map<string, double>"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}, "decimal(9,2)"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 9}, "decimal(9,0)"),
        ({"type": "long", "logicalType": "timestamp-micros"}, "timestamp"),
        ({"type": "int", "logicalType": "date"}, "date"),
        ({"type": "long", "logicalType": "unknown"}, "bigint"),
        ({"type": "enum", "name": "Kind", "symbols": ["A"]}, "string"),
        ({"type": "fixed", "name": "Hash", "size": 16}, "binary"),
        (record(("city", "string"), name="Address"), "struct<`city`: string>"),
    ],
)
def test_an_avro_type_becomes_a_column_type(kind: Any, column: str) -> None:
    assert Avro(json.dumps(record(("x", kind)))).ddl() == f"struct<`x`: {column}>"


@pytest.mark.parametrize("reference", ("Address", "shop.Address"))
def test_a_named_avro_type_is_used_again_by_its_name(reference: str) -> None:
    address = record(("city", "string"), name="Address") | {"namespace": "shop"}
    schema = record(("to", address), ("from", reference))
    assert Avro(json.dumps(schema)).ddl() == "struct<`to`: struct<`city`: string>, `from`: struct<`city`: string>>"


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        ("Adress", "the Avro schema refers to 'Adress', which it does not define"),
        (["int", "string"], "a union of several types has no column type"),
        (["null"], "a union of several types has no column type"),
    ],
)
def test_an_avro_type_without_a_column_type_is_rejected(kind: Any, why: str) -> None:
    with pytest.raises(PenstockClientError, match=why):
        Avro(json.dumps(record(("x", kind)))).ddl()


def test_an_avro_schema_is_read_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "order.avsc"
    path.write_text(json.dumps(record(("id", "long"))))
    assert Avro(str(path)).ddl() == "struct<`id`: bigint>"
    with pytest.raises(PenstockClientError, match=r"the schema file .*missing.avsc does not exist"):
        Avro(str(tmp_path / "missing.avsc")).ddl()


def test_plain_avro_of_another_schema_is_rejected() -> None:
    ours = record(("id", "long"))
    decode = Avro(json.dumps(ours)).decoder()
    assert decode(avro(ours, {"id": 7})) == {"id": 7}
    with pytest.raises(ValueError, match="4 bytes remain after the record: it was written with another schema"):
        decode(avro(ours, {"id": 7}) + b"more")


def test_avro_in_the_wire_format_is_read_with_the_schema_of_its_writer(tmp_path: Path) -> None:
    old, new = record(("id", "long")), record(("id", "long"))
    new["fields"].append({"name": "note", "type": "string", "default": "-"})
    (tmp_path / "3.avsc").write_text(json.dumps(old))
    decode = Avro(json.dumps(new), Schemas(str(tmp_path))).decoder()
    for number in (7, 8):
        assert decode(sealed(3, avro(old, {"id": number}))) == {"id": number, "note": "-"}
    with pytest.raises(BadRow, match="no schema 4 in"):
        decode(sealed(4, b""))


def test_a_directory_of_schemas_that_does_not_exist_fails_the_task(tmp_path: Path) -> None:
    with pytest.raises(PenstockClientError, match="does not exist on this machine"):
        Schemas(str(tmp_path / "missing")).text(1)


@pytest.mark.parametrize("value", (b"", b"\x00\x00\x00\x01", b"\x01\x00\x00\x00\x01rest"))
def test_a_value_outside_the_wire_format_is_a_bad_row(value: bytes) -> None:
    with pytest.raises(BadRow, match="not in the registry's wire format"):
        opened(value)


# -- Protobuf --------------------------------------------------------------------------------

OPTIONAL, REPEATED = 1, 3
INT64, UINT64, STRING, MESSAGE, ENUM = 3, 4, 9, 11, 14


def descriptors(folder: Path) -> str:
    """Write what protoc would for a file with the messages Order, Address and Node, which contains itself."""
    from google.protobuf import timestamp_pb2

    files = descriptor_pb2.FileDescriptorSet()
    timestamp_pb2.DESCRIPTOR.CopyToProto(files.file.add())
    file = files.file.add(name="order.proto", package="shop", syntax="proto3")
    file.dependency.append("google/protobuf/timestamp.proto")
    kind = file.enum_type.add(name="Kind")
    kind.value.add(name="RETAIL", number=0)
    order = file.message_type.add(name="Order")
    entry = order.nested_type.add(name="CountsEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=STRING, label=OPTIONAL)
    entry.field.add(name="value", number=2, type=INT64, label=OPTIONAL)
    for name, number, type_, label, of in (
        ("id", 1, INT64, OPTIONAL, ""),
        ("sum", 2, UINT64, OPTIONAL, ""),
        ("at", 3, MESSAGE, OPTIONAL, ".google.protobuf.Timestamp"),
        ("kinds", 4, ENUM, REPEATED, ".shop.Kind"),
        ("counts", 5, MESSAGE, REPEATED, ".shop.Order.CountsEntry"),
        ("to", 6, MESSAGE, OPTIONAL, ".shop.Address"),
    ):
        options: Any = {"type_name": of} if of else {}
        order.field.add(name=name, number=number, type=type_, label=label, **options)
    file.message_type.add(name="Address").field.add(name="city", number=1, type=STRING, label=OPTIONAL)
    node = file.message_type.add(name="Node")
    node.field.add(name="next", number=1, type=MESSAGE, label=OPTIONAL, type_name=".shop.Node")
    path = folder / "order.desc"
    path.write_bytes(files.SerializeToString())
    return str(path)


def test_a_protobuf_message_becomes_columns(tmp_path: Path) -> None:
    assert Protobuf(descriptors(tmp_path), "shop.Order").ddl() == (
        "struct<`id`: bigint, `sum`: decimal(20,0), `at`: timestamp, `kinds`: array<string>, "
        "`counts`: map<string, bigint>, `to`: struct<`city`: string>>"
    )


def test_a_recursive_protobuf_message_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(PenstockClientError, match=r"the message shop.Node is recursive"):
        Protobuf(descriptors(tmp_path), "shop.Node").ddl()


def test_a_missing_descriptor_set_is_reported_with_the_command_that_creates_it(tmp_path: Path) -> None:
    with pytest.raises(PenstockClientError, match="protoc --include_imports --descriptor_set_out=FILE"):
        Protobuf(str(tmp_path / "missing.desc"), "shop.Order").ddl()


ORDER = bytes.fromhex("0807" + "10ffffffffffffffffff01" + "1a020801" + "220200 05".replace(" ", "") + "2a050a01611003")
"""id 7, the largest sum, at one second, kinds RETAIL and 5, counts {a: 3}; no address."""


def test_a_protobuf_row_has_names_times_and_exact_numbers(tmp_path: Path) -> None:
    decode = Protobuf(descriptors(tmp_path), "shop.Order").decoder()
    assert decode(ORDER) == {
        "id": 7,
        "sum": Decimal(2**64 - 1),
        "at": datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC),
        "kinds": ["RETAIL", "5"],
        "counts": [("a", 3)],
        "to": None,
    }
    assert decode(b"\x32\x06\x0a\x04Oslo")["to"] == {"city": "Oslo"}


@pytest.mark.parametrize("indexes", (b"\x00", b"\x02\x00", b"\x04\x02\x80\x01"))
def test_the_message_indexes_of_the_wire_format_are_skipped(indexes: bytes, tmp_path: Path) -> None:
    decode = Protobuf(descriptors(tmp_path), "shop.Order", is_wire_format=True).decoder()
    assert decode(sealed(1, indexes + b"\x08\x07"))["id"] == 7


@pytest.mark.parametrize("indexes", (b"", b"\x04\x02", b"\xff\xff\xff\xff\xff\xff\xff"))
def test_cut_message_indexes_are_a_bad_row(indexes: bytes, tmp_path: Path) -> None:
    decode = Protobuf(descriptors(tmp_path), "shop.Order", is_wire_format=True).decoder()
    with pytest.raises(BadRow, match="the message indexes of the wire format are truncated"):
        decode(sealed(1, indexes))


# -- rows ------------------------------------------------------------------------------------


def test_a_bad_row_becomes_an_error_and_the_others_are_kept() -> None:
    def decode(value: bytes) -> dict[str, Any]:
        if value == b"bad":
            raise BadRow("no schema 9")
        if value == b"empty":
            raise KeyError
        return {"n": int(value)}

    rows, errors = decode_all([b"1", None, b"bad", b"x", b"empty"], decode)
    assert rows == [{"n": 1}, None, None, None, None]
    assert errors == [
        None,
        "NoValue: the value is null",
        "BadRow: no schema 9",
        "ValueError: invalid literal for int() with base 10: b'x'",
        "KeyError: the value does not fit the schema",
    ]


def test_a_registry_that_does_not_respond_fails_the_whole_task() -> None:
    def decode(value: bytes) -> dict[str, Any]:
        raise PenstockClientError("the schema registry did not respond")

    with pytest.raises(PenstockClientError, match="did not respond"):
        decode_all([b"1"], decode)


def test_rows_that_do_not_fit_the_columns_are_errors() -> None:
    errors: list[str | None] = [None, None]
    found = one_by_one([{"n": 1}, {"n": "many"}], errors, pa.struct([("n", pa.int64())]))
    assert found.to_pylist() == [{"n": 1}, None]
    assert errors[0] is None and str(errors[1]).startswith("ArrowInvalid: ")
