"""Snapshots: keeping one, a model as a file, the way back, and past what cannot be applied."""
