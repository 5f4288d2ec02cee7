"""Codecs that decode values into columns, and dead letters for rows that cannot be decoded.

    rows = decoded(frame, Json("id BIGINT, amount DOUBLE", required=["id"]))
    clean = accepted(rows)                    # the columns of the value, without bad rows
    bad = letters(rows, group="orders")       # for a sink of format penstock: value, error and origin

`rows` are the source's rows with two more columns: `data`, and `error`, which is null if the value was decoded.
"""

from penstock_spark.codecs.avro import Avro
from penstock_spark.codecs.decoding import Codec, accepted, decoded
from penstock_spark.codecs.json import Json
from penstock_spark.codecs.letters import letters
from penstock_spark.codecs.protobuf import Protobuf
from penstock_spark.codecs.schemas import Schemas

__all__ = ["Avro", "Codec", "Json", "Protobuf", "Schemas", "accepted", "decoded", "letters"]
