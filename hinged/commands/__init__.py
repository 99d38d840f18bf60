"""The command line, a module for each of its commands."""
