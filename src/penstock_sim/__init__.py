"""Deterministic simulator: the four ports with seeded randomness and faults, which run the production code."""
