"""docs/performance.md and its pictures, from the figures of `benchmarks.peers`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.bars import CEILING, FSYNC, KAFKA, OS

Figures = Mapping[str, float]
TIE = 1.05
"""Brokers closer to each other than this are called equal."""


@dataclass(frozen=True, slots=True)
class Row:
    """One kind of work. `figure` is compared, `cost` is compared as well, `more` is only shown."""

    name: str
    figure: str
    higher_is_better: bool = True
    cost: str = ""
    more: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Section:
    title: str
    about: str
    rows: tuple[Row, ...]


class Page:
    def __init__(
        self, sections: Sequence[Section], figures: Mapping[tuple[str, str], Figures], facts: Mapping[str, str]
    ) -> None:
        self._sections, self._figures, self._facts = sections, figures, facts

    def write(self, path: Path) -> None:
        """Write the page, and a picture of each section into images/performance/ beside it."""
        pictures = path.parent / "images" / "performance"
        pictures.mkdir(parents=True, exist_ok=True)
        for section in self._sections:
            (pictures / _picture_name(section)).write_text(self.picture(section))
        path.write_text(self.text())

    def text(self) -> str:
        facts = self._facts
        parts = [
            "# Performance\n",
            f"`make bench-peers` wrote this page on {facts['date']}: {facts['machine']}. "
            f"Penstock and {facts['peer']} ran on the same machine and were measured in turn; "
            f"the best of {facts['rounds']} counts. The log to recover had {facts['recovered']}. "
            " Absolute figures depend on the machine; compare the ratios.\n",
            "- **Penstock (fsync)** is the default: it acknowledges a write when it is on the disk.\n"
            "- **Penstock (os)** acknowledges a write that is in the page cache (`flush.mode=os`), as Kafka does.\n"
            "- **Apache Kafka (os)** runs with its defaults, which do not sync.\n",
            "A ratio above 1 means that Penstock is better than Kafka, whether a high or a low figure is better. "
            "In the pictures the line at 1 is Kafka.\n",
        ]
        parts += [self._section(section) for section in self._sections]
        parts.append(self._losses())
        return "\n".join(parts)

    def _section(self, section: Section) -> str:
        picture = f"![{section.title}: Penstock relative to Kafka](images/performance/{_picture_name(section)})\n"
        lines = [f"## {section.title}\n", section.about + "\n", picture]
        rows = self._measured(section)
        has_limits = any((row.name, CEILING) in self._figures for row in rows)
        titles = ["work", "Kafka", "os", "fsync", "os / Kafka", "fsync / Kafka", *(["limit"] if has_limits else [])]
        lines += [f"| {' | '.join(titles)} |", "|---" + "|---:" * (len(titles) - 1) + "|"]
        for row in rows:
            cells = [self._cell(row, title) for title in (KAFKA, OS, FSYNC)]
            cells += [_shown(self.ratio(row, title)) for title in (OS, FSYNC)]
            cells += [self._cell(row, CEILING)] if has_limits else []
            lines.append(f"| {row.name} | {' | '.join(cells)} |")
        return "\n".join(lines) + "\n"

    def _measured(self, section: Section) -> list[Row]:
        return [row for row in section.rows if any((row.name, title) in self._figures for title in (KAFKA, OS, FSYNC))]

    def _cell(self, row: Row, title: str) -> str:
        figures = self._figures.get((row.name, title))
        if figures is None:
            return "-"
        names = [row.figure, *row.more, *([row.cost] if row.cost else [])]
        return "<br>".join(number(figures[name], name) for name in names if name in figures)

    def ratio(self, row: Row, title: str, *, cost: bool = False) -> float | None:
        """Return how much better a broker is than Kafka in a row, above 1 if it is better."""
        name = row.cost if cost else row.figure
        ours = self._figures.get((row.name, title), {}).get(name)
        theirs = self._figures.get((row.name, KAFKA), {}).get(name)
        if not ours or not theirs:
            return None
        return ours / theirs if row.higher_is_better and not cost else theirs / ours

    def _losses(self) -> str:
        lines = ["## Where Kafka is ahead\n"]
        for section in self._sections:
            for row in section.rows:
                for title in (OS, FSYNC):
                    ratio, cost = self.ratio(row, title), self.ratio(row, title, cost=True) if row.cost else None
                    if ratio is not None and ratio * TIE < 1:
                        lines.append(f"- {row.name}: {title} reaches {ratio:.2f} of Kafka.")
                    if cost is not None and cost * TIE < 1:
                        lines.append(f"- {row.name}: {title} needs {1 / cost:.2f} times Kafka's CPU time.")
        if len(lines) == 1:
            lines.append("In none of the rows above.")
        return "\n".join(lines) + "\n"

    def picture(self, section: Section) -> str:
        """Return a bar for each row and mode of Penstock, relative to Kafka, as SVG for light and dark pages."""
        rows = [(row, self.ratio(row, OS), self.ratio(row, FSYNC)) for row in self._measured(section)]
        largest = max([2.0, *(value for each in rows for value in each[1:] if value is not None)])
        left, width, step = 330, 420, 34
        scale = width / largest
        height = len(rows) * step + 50
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {left + width + 70} {height}" '
            f'font-family="sans-serif" font-size="12" role="img" aria-label="{section.title}">',
            "<style>text{fill:#333}.os{fill:#2a9d8f}.fsync{fill:#e9a13b}.one{stroke:#888}"
            "@media(prefers-color-scheme:dark){text{fill:#ddd}}</style>",
            f'<rect class="os" x="{left}" y="6" width="12" height="12"/><text x="{left + 17}" y="16">os</text>',
            f'<rect class="fsync" x="{left + 50}" y="6" width="12" height="12"/>'
            f'<text x="{left + 67}" y="16">fsync</text>',
        ]
        for index, (row, *values) in enumerate(rows):
            top = 28 + index * step
            parts.append(f'<text x="{left - 8}" y="{top + 17}" text-anchor="end">{row.name}</text>')
            for name, value, at in zip(("os", "fsync"), values, (top, top + 13), strict=True):
                if value is not None:
                    size = value * scale
                    parts.append(f'<rect class="{name}" x="{left}" y="{at}" width="{size:.1f}" height="11"/>')
                    parts.append(f'<text x="{left + size + 5:.1f}" y="{at + 10}" font-size="10">{value:.2f}</text>')
        one = left + scale
        parts.append(f'<line class="one" x1="{one:.1f}" y1="24" x2="{one:.1f}" y2="{height - 18}"/>')
        parts.append(f'<text x="{one:.1f}" y="{height - 5}" text-anchor="middle">Kafka</text></svg>\n')
        return "".join(parts)


def number(value: float, name: str) -> str:
    """Return a figure with its unit, in three digits or in full if it is large."""
    unit = name.replace("p50_us", "us (p50)").replace("p99_us", "us (p99)")
    shown = f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"
    for quantile in ("p50", "p99", "p99.9"):
        if name == f"{quantile} ms":
            unit = f"ms ({quantile})"
    return f"{shown} {unit}"


def _picture_name(section: Section) -> str:
    return section.title.lower().replace(",", "").replace(" ", "-") + ".svg"


def _shown(ratio: float | None) -> str:
    if ratio is None:
        return "-"
    return f"**{ratio:.2f}**" if ratio * TIE < 1 else f"{ratio:.2f}"
