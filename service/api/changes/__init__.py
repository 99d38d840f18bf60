"""Changes of what was learned: forgetting, correcting, another configuration, challengers, and their jobs."""
