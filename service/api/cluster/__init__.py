"""Routes for servers that share a store."""
