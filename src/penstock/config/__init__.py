"""Configuration options. Each is declared once, with Kafka's name, type, default, limits, scope and description."""
