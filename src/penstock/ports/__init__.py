"""The interfaces to the outside: clock, entropy, disk, network, and a few smaller ones.

Nothing else touches time, chance, files or sockets, so that the same code runs under a
seeded simulator. `real/` implements them on the operating system.
"""
