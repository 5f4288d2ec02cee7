"""Every option, declared once: Kafka's name outside, type, default, bounds, scope and doc."""
