"""Log compaction: keep the last record of each key. docs/internals/compaction.md has rules, files and order of calls.

plan.py decides, rewrite.py reads and writes in a worker, swap.py puts the result in place, cleaner.py drives them for
one data folder.
"""
