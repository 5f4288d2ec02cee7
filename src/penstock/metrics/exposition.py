"""Metrics in the Prometheus text format, version 0.0.4.

`render` yields chunks of a few hundred lines at most. The server lets the event loop run between them, so that a
scrape of ten thousand partitions does not delay requests.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from penstock.metrics.declared import Declaration
from penstock.metrics.values import BUCKET_FIRST, BUCKET_LAST, Histogram

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
LINES_PER_PIECE: Final = 200
NANOSECONDS_PER_MS: Final = 1_000_000

Labels = tuple[str, ...]
Value = float | Histogram | tuple[float, int]
"""A number, a histogram, or for a summary the sum and the count."""
Sample = tuple[Labels, Value]
Source = Callable[[], Iterable[Sample | None]]
"""Yields the samples of one metric; None marks a point where the event loop may run."""


def render(sources: Iterable[tuple[Declaration, Source]]) -> Iterator[str]:
    lines: list[str] = []
    for declaration, source in sources:
        begun = False
        for sample in source():
            if sample is not None:
                if not begun:
                    begun = True
                    lines.append(f"# HELP {declaration.name} {_escaped_doc(declaration)}")
                    lines.append(f"# TYPE {declaration.name} {declaration.kind}")
                lines.extend(_lines(declaration, *sample))
            if sample is None or len(lines) >= LINES_PER_PIECE:
                yield "".join(line + "\n" for line in lines)
                lines.clear()
    yield "".join(line + "\n" for line in lines)


def _lines(declaration: Declaration, labels: Labels, value: Value) -> Iterator[str]:
    pairs = [f'{name}="{_escaped(text)}"' for name, text in zip(declaration.labels, labels, strict=True)]
    shown = f"{{{','.join(pairs)}}}" if pairs else ""
    name = declaration.name
    if isinstance(value, Histogram):
        count = sum(value.counts[:BUCKET_FIRST])
        for bit_length in range(BUCKET_FIRST, BUCKET_LAST + 1):
            count += value.counts[bit_length]
            bound = f'le="{(1 << bit_length) / NANOSECONDS_PER_MS:g}"'
            yield f"{name}_bucket{{{','.join([*pairs, bound])}}} {count}"
        count = sum(value.counts)
        infinite = 'le="+Inf"'
        yield f"{name}_bucket{{{','.join([*pairs, infinite])}}} {count}"
        value = (value.total_ns / NANOSECONDS_PER_MS, count)
    if isinstance(value, tuple):
        yield f"{name}_sum{shown} {_number(value[0])}"
        yield f"{name}_count{shown} {value[1]}"
    else:
        yield f"{name}{shown} {_number(value)}"


def _number(value: float) -> str:
    return str(value) if isinstance(value, int) else repr(float(value))


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def _escaped_doc(declaration: Declaration) -> str:
    unit = f" [{declaration.unit}]" if declaration.unit else ""
    return (declaration.doc + unit).replace("\\", "\\\\").replace("\n", "\\n")
