"""Metrics of a node. Each is declared once, counted in plain integers, and rendered when it is scraped."""
