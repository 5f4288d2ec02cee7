"""Clients of other languages, fetched from their registries: run with PENSTOCK_TEST_MORE_CLIENTS=1."""
