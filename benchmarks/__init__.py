"""How fast Penstock is, beside Apache Kafka on the same machine in the same run. `python -m benchmarks`."""
