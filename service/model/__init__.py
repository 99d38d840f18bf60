"""A model in memory: the state that its events make. It has nothing that is not in its log."""
