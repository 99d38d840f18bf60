"""Routes for models: create, list, describe, delete."""
