"""Kinds of columns: the kinds of a name's strings, and the columns that each kind makes."""
