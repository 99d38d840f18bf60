"""Models as files: exports, imports, and the tests that an imported model must pass."""
