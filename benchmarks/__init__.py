"""Benchmarks of Penstock and Apache Kafka on the same machine in the same run. `python -m benchmarks`."""
