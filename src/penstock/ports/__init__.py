"""The world, in four small interfaces: clock, entropy, disk and network.

Nothing else touches time, chance, files or sockets, so the same code runs under a
seeded simulator. `real.py` gathers the four that stand on the operating system.
"""
