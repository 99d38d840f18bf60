"""Routes of several servers that share a store."""
