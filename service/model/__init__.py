"""A model in memory: the state that results from its events. It contains nothing that is not in its log."""
