"""The server. Its models learn while they serve, over HTTP, and their logs survive a crash."""

if __name__ != "hinged.service":  # a second name would create each class twice
    raise ImportError("this folder is imported as hinged.service")
