"""Durable logs and snapshots: one contract (base.py), kept by an embedded SQLite file and by Redis."""
