"""The four ports, seeded and faulty, so that the real code can be tried against bad luck."""
