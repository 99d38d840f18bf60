"""Kinds of columns: what the strings of a name are, and which columns come of them."""
