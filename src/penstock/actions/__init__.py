"""Actions on a cluster and its files, for any front end: the commands today, a web console tomorrow.

An action takes values (a `Connection`, names, plans) and returns values. It prints nothing and knows no option of a
command line. A failed action raises `ActionError`; the front end adds what its user can do next. Modules that need
kio or confluent-kafka import them late or are imported late, because loading them takes longer than most actions.
"""
