"""Schemas by id, for values in the wire format of schema registries: a zero byte, a four-byte id, the value.

They come from a registry (`Schemas("http://registry:8081")`) or from files named by id (`Schemas("schemas/")`:
7.avsc), and are cached for the life of the process. If the registry does not respond, the task fails and Spark
retries it; an unknown id is an error of the row.
"""

from __future__ import annotations

import json
import struct
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from penstock_client.errors import PenstockClientError

MAGIC: Final = 0
_TIMEOUT_S: Final = 10
_kept: dict[tuple[str, int], Any] = {}


class BadRow(Exception):
    """The value cannot be decoded; the message says why."""


@dataclass(frozen=True, slots=True)
class Schemas:
    """A source of schemas: a registry's URL or a directory."""

    where: str

    def text(self, schema_id: int) -> str:
        known = _kept.get((self.where, schema_id))
        if known is None:
            known = self._from_registry(schema_id) if "://" in self.where else self._from_folder(schema_id)
            _kept[self.where, schema_id] = known
        return str(known)

    def _from_folder(self, schema_id: int) -> str:
        folder = Path(self.where)
        if not folder.is_dir():
            raise PenstockClientError(f"the schema directory {self.where} does not exist on this machine")
        for path in folder.glob(f"{schema_id}.*"):
            return path.read_text(encoding="utf-8")
        raise BadRow(f"no schema {schema_id} in {self.where}")

    def _from_registry(self, schema_id: int) -> str:
        url = f"{self.where.rstrip('/')}/schemas/ids/{schema_id}"
        try:
            with urllib.request.urlopen(url, timeout=_TIMEOUT_S) as reply:
                return str(json.load(reply)["schema"])
        except urllib.error.HTTPError as error:
            if error.code == 404:
                raise BadRow(f"the registry has no schema {schema_id}") from None
            raise PenstockClientError(f"the registry responded with {error.code} for {url}") from error
        except (OSError, ValueError, KeyError) as error:
            raise PenstockClientError(f"the schema registry at {self.where} did not respond: {error}") from error


def opened(value: bytes) -> tuple[int, bytes]:
    """Return the schema id and the payload after it."""
    if len(value) < 5 or value[0] != MAGIC:
        raise BadRow("the value is not in the registry's wire format: its first byte is not 0, or it is too short")
    return struct.unpack(">I", value[1:5])[0], value[5:]


def sealed(schema_id: int, payload: bytes) -> bytes:
    return struct.pack(">BI", MAGIC, schema_id) + payload
