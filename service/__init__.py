"""The server: models that learn while they serve, over HTTP, with a log that survives a crash."""

if __name__ != "hinged.service":  # imported under a second name, each of its classes would exist twice
    raise ImportError("this folder is imported as hinged.service")
