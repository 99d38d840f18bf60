"""Routes for snapshots: keep, export, import, roll back, and pass over an event that cannot be applied."""
