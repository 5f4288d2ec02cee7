"""Clients of other languages, fetched from their registries."""
