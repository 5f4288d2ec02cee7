"""One file per API, each headed by its behaviour and version notes; `table.py` finds them by key."""
