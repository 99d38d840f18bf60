"""A model in memory: the state that results from its events. The state contains nothing that is not in the log."""
