"""One file per API, each with its behaviour and version notes at the top; `support/table.py` finds them by key."""
