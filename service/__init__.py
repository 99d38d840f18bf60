"""The server: models that learn while they serve, over HTTP, with a log that outlives a crash."""

if __name__ != "hinged.service":  # a second name would make every class of it twice
    raise ImportError("this folder is imported as hinged.service")
