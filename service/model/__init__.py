"""A model in memory: what its events make of it, and nothing that is not in its log."""
