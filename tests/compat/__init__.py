"""Clients that nobody here wrote, against a live node.

`PENSTOCK_TEST_BOOTSTRAP=host:port` points these tests at another broker, and `=apache` at an
Apache Kafka started for the run: a test that fails there is a wrong test.
"""
