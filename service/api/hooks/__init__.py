"""Routes for hooks: add, list and remove the URLs that the server calls when something happens to a model."""
