"""A small blocking client of Kafka's protocol: what a Spark source and sink need, and no more."""
