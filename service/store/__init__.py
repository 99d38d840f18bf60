"""Durable logs and snapshots. One contract (base.py) is implemented by an embedded SQLite file and by Redis."""
