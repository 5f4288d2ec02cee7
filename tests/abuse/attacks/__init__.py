"""The attacks, one module per family."""
