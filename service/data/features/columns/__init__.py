"""Kinds of columns. A kind says what the strings of a name mean, and which columns the strings make."""
