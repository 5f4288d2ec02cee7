"""Hostile clients against a live node, with an innocent client beside them. `make abuse` runs the catalogue."""
