"""Forms of x: each kind of features, and each kind of column, parses, stores, checks and describes itself here."""
