"""Values into columns, and rows that cannot be read into dead letters.

    rows = decoded(frame, Json("id BIGINT, amount DOUBLE", required=["id"]))
    clean = accepted(rows)                    # the columns of the value, without the bad rows
    bad = letters(rows, group="orders")       # for a sink of format penstock: value, error, and where it came from

`rows` are the source's with two more columns: `data`, and `error`, which is null where the value could be read.
"""

from penstock_spark.codecs.avro import Avro
from penstock_spark.codecs.decoding import Codec, accepted, decoded
from penstock_spark.codecs.json import Json
from penstock_spark.codecs.letters import letters
from penstock_spark.codecs.protobuf import Protobuf
from penstock_spark.codecs.schemas import Schemas

__all__ = ["Avro", "Codec", "Json", "Protobuf", "Schemas", "accepted", "decoded", "letters"]
