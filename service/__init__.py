"""The server: models that learn while they serve, over HTTP, with a log that outlives a crash."""
