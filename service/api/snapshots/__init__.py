"""Routes for snapshots: take, export, import, roll back, and skip an event that the model cannot apply."""
