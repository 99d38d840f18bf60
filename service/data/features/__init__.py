"""Forms of x. Each kind of features, and each kind of column, does its own parsing, storing, checking and
describing.
"""
