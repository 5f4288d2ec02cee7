"""A load test of any Kafka cluster: load.py drives clients, measurement.py counts. The display is the front end's."""
