"""Third-party clients against a live node.

`PENSTOCK_TEST_BOOTSTRAP=host:port` runs these tests against another broker, and `=apache` against an Apache Kafka
started for the run: a test that fails there is wrong.
"""
