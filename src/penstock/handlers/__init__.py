"""One file per API, with its behaviour and version notes at the top; `support/registry.py` finds cold ones by key."""
