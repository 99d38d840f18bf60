"""Where logs and snapshots last: one contract, several databases."""
