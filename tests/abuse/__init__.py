"""Attacks by hostile clients on a live node, while a well-behaved client uses it. `make abuse` runs all of them."""
