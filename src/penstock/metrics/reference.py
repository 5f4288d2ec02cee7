"""Writes the reference of all metrics, in Markdown: `python -m penstock.metrics.reference > docs/metrics.md`."""

from penstock.metrics.declared import DECLARED


def render_reference() -> str:
    lines = [
        "# Metrics",
        "",
        "Written by `make docs` from the declarations in `src/penstock/metrics/declared.py`.",
        "How to have them scraped, shown and watched: [the guide](guides/monitoring.md).",
        "",
        "| name | kind | unit | labels | |",
        "|---|---|---|---|---|",
    ]
    for one in DECLARED.values():
        labels = ", ".join(f"`{label}`" for label in one.labels)
        lines.append(f"| `{one.name}` | {one.kind} | {one.unit} | {labels} | {one.doc} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(render_reference(), end="")
