"""JSON values with a schema, or as VARIANT, decoded by Spark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import Column

VARIANT: Final = "VARIANT"
_CORRUPT: Final = "__corrupt"


@dataclass(frozen=True, slots=True)
class Json:
    """`schema` is DDL such as "id BIGINT, name STRING", or VARIANT. `required` fields must not be null."""

    schema: str = VARIANT
    required: Sequence[str] = ()

    def decode(self, value: Column) -> Column:
        from pyspark.sql import functions as f

        text = value.cast("string")
        absent = f.when(value.isNull(), f.lit("NoValue: the value is null"))
        if self.schema.upper() == VARIANT:
            data = f.try_parse_json(text)
            error = absent.when(data.isNull(), f.lit("NotJson: the value is not JSON"))
            return f.struct(data.alias("data"), error.alias("error"))
        parsed = f.from_json(
            text, f"{self.schema}, {_CORRUPT} STRING", {"columnNameOfCorruptRecord": _CORRUPT, "mode": "PERMISSIVE"}
        )
        error = absent.when(
            parsed.isNull() | parsed[_CORRUPT].isNotNull(),
            f.lit("NotJson: the value is not a JSON object with fields of the schema's types"),
        )
        for name in self.required:
            error = error.when(parsed[name].isNull(), f.lit(f"MissingField: the field {name} is missing or null"))
        return f.struct(parsed.dropFields(_CORRUPT).alias("data"), error.alias("error"))
