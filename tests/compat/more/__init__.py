"""Clients in other languages, fetched from their registries."""
