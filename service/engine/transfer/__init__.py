"""Models as files: exports, imports, and the examination of what is imported."""
