"""The web console: a separate process that shows and changes any Kafka cluster (docs/internals/console.md).

It is a client like the commands: it imports actions, sqlview and arrow, and nothing of the broker. Needs
`penstock[console]`.
"""
