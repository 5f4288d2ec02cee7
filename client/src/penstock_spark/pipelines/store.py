"""The storage directory of a pipeline: checkpoints by generation, and the state of its last run.

    checkpoints/<flow>/<generation>/     Spark's checkpoints; a replay starts a new generation
    tables/<table>/<generation>/         streaming tables, one directory per generation
    state.json                           the current or last run, for `penstock pipeline status`

Read without Spark, so that read-only commands respond quickly.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from typing import Any

from penstock_client.errors import PenstockClientError
from penstock_client.offsets import Offsets
from penstock_spark.lake.files import file_system


class Store:
    """One storage directory."""

    def __init__(self, storage: str) -> None:
        self.storage = storage
        self._system, self._root = file_system(storage)

    def flows(self) -> list[str]:
        """Return the flows that have ever run here."""
        return sorted(self._names("checkpoints"))

    def generation(self, flow: str) -> int:
        return max((int(name) for name in self._names(f"checkpoints/{flow}") if name.isdigit()), default=0)

    def begin_generation(self, flow: str, number: int) -> None:
        self._system.create_dir(f"{self._root}/checkpoints/{flow}/{number}", recursive=True)

    def checkpoint(self, flow: str) -> str:
        return f"{self.storage}/checkpoints/{flow}/{self.generation(flow)}"

    def make_folder(self, path: str) -> None:
        system, inside = file_system(path)
        system.create_dir(inside, recursive=True)

    def offsets(self, flow: str) -> tuple[int, Offsets] | None:
        """Return the last completed batch and the offsets after it, or None before the first."""
        folder = f"checkpoints/{flow}/{self.generation(flow)}"
        done = [int(name) for name in self._names(f"{folder}/commits") if name.isdigit()]
        if not done:
            return None
        batch = max(done)
        text = self._read(f"{folder}/offsets/{batch}")
        return batch, offsets_in(text or "")

    def write_state(self, state: Mapping[str, Any]) -> None:
        """Write the state atomically, because others may read it at the same time."""
        self._system.create_dir(self._root, recursive=True)
        draft = f"{self._root}/state.{secrets.token_hex(4)}.draft"
        with self._system.open_output_stream(draft) as stream:
            stream.write(json.dumps(state, indent=1).encode())
        self._system.move(draft, f"{self._root}/state.json")

    def state(self) -> dict[str, Any] | None:
        text = self._read("state.json")
        return None if text is None else dict(json.loads(text))

    def _read(self, name: str) -> str | None:
        try:
            with self._system.open_input_stream(f"{self._root}/{name}") as stream:
                return bytes(stream.read()).decode()
        except FileNotFoundError:
            return None

    def _names(self, folder: str) -> list[str]:
        from pyarrow import fs

        try:
            found = self._system.get_file_info(fs.FileSelector(f"{self._root}/{folder}", allow_not_found=True))
        except OSError as error:
            raise PenstockClientError(f"cannot read the storage {self.storage}: {error}") from error
        return [one.base_name for one in found]


def offsets_in(text: str) -> Offsets:
    """Return the topic offsets in a file of Spark's offset log, which has one line of JSON per source."""
    found: Offsets = {}
    for line in text.splitlines():
        try:
            value = json.loads(line)
        except ValueError:
            continue
        if not isinstance(value, dict):
            continue
        for topic, partitions in value.items():
            if isinstance(partitions, dict) and partitions and not topic.startswith("#"):
                for partition, offset in partitions.items():
                    if partition.isdigit() and isinstance(offset, int):
                        found[topic, int(partition)] = offset
    return found
