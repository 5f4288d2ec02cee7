"""The HTTP endpoint of a machine with several cores: /metrics, /health and /ready of all of them.

Each core serves its own endpoint on a Unix socket. /metrics has the samples of all cores with the label `core`, and
`penstock_core_up`, which is 0 for a core that does not answer. /health and /ready fail if that of a core fails.
"""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Final

from penstock.metrics.exposition import CONTENT_TYPE
from penstock.ports.instruments import HttpAnswer

ANSWER_S_MAX: Final = 5.0
NOT_FOUND: Final = "not found: use /metrics, /health or /ready\n"
_TEXT: Final = "text/plain; charset=utf-8"
_HEAD: Final = re.compile(r"# (?:HELP|TYPE) (\S+)")
_SAMPLE: Final = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})?( .+)")


class MachineEndpoint:
    def __init__(self, sockets: Mapping[int, str]) -> None:
        self._sockets = sockets

    async def answer(self, path: str) -> HttpAnswer:
        if path == "/metrics":
            pages = await self._ask_all(path)
            merged = merge_metrics({core: None if page is None else page[1] for core, page in pages.items()})
            return HttpAnswer(200, CONTENT_TYPE, _body(merged))
        if path in ("/health", "/ready"):
            return verdict(await self._ask_all(path))
        return HttpAnswer(404, _TEXT, _body(NOT_FOUND))

    async def _ask_all(self, path: str) -> dict[int, tuple[int, str] | None]:
        answers = await asyncio.gather(*(_ask(socket, path) for socket in self._sockets.values()))
        return dict(zip(self._sockets, answers, strict=True))


def merge_metrics(pages: Mapping[int, str | None]) -> str:
    """Return the metrics of all cores as one page, in the order of the first page that has a metric."""
    heads: dict[str, list[str]] = {}
    samples: dict[str, list[str]] = {}
    for core, page in pages.items():
        family = ""
        for line in (page or "").splitlines():
            if (described := _HEAD.match(line)) is not None:
                family = described[1]
                head = heads.setdefault(family, [])
                if line not in head:
                    head.append(line)
            elif (found := _SAMPLE.fullmatch(line)) is not None:
                labels = f'core="{core}",{found[2]}' if found[2] else f'core="{core}"'
                samples.setdefault(family or found[1], []).append(f"{found[1]}{{{labels}}}{found[3]}")
    lines = ["# HELP penstock_core_up Whether a core of this machine answers.", "# TYPE penstock_core_up gauge"]
    lines += [f'penstock_core_up{{core="{core}"}} {int(page is not None)}' for core, page in pages.items()]
    for family, found_samples in samples.items():
        lines += [*heads.get(family, ()), *found_samples]
    return "\n".join(lines) + "\n"


def verdict(answers: Mapping[int, tuple[int, str] | None]) -> HttpAnswer:
    """Return the state of the machine: the first problem of a core, and the warnings of all."""
    problems: list[str] = []
    warnings: list[str] = []
    for core, answer in answers.items():
        if answer is None:
            problems.append(f"core {core}: it does not answer")
            continue
        status, text = answer
        state = json.loads(text)
        if status != 200:
            problems.append(f"core {core}: {state['reason']}")
        warnings += [f"core {core}: {warning}" for warning in state.get("warnings", ())]
    body: dict[str, object] = {"status": "failed", "reason": "; ".join(problems)} if problems else {"status": "ok"}
    if warnings:
        body["warnings"] = warnings
    return HttpAnswer(503 if problems else 200, "application/json", _body(json.dumps(body) + "\n"))


async def _ask(socket: str, path: str) -> tuple[int, str] | None:
    """Return status and body of a core's answer; None if there is none in time."""
    try:
        async with asyncio.timeout(ANSWER_S_MAX):
            reader, writer = await asyncio.open_unix_connection(socket)
            try:
                writer.write(f"GET {path} HTTP/1.1\r\n\r\n".encode())
                head, _, body = (await reader.read()).partition(b"\r\n\r\n")
            finally:
                writer.close()
        return int(head.split(b" ", 2)[1]), body.decode()
    except (OSError, TimeoutError, IndexError, ValueError):
        return None


async def _body(text: str) -> AsyncIterator[bytes]:
    for piece in _pieces(text):
        yield piece


def _pieces(text: str, size: int = 1 << 16) -> Iterable[bytes]:
    return (text[start : start + size].encode() for start in range(0, len(text), size))
