"""What x may be: each kind of features, and each kind of column, reads, writes, refuses and describes itself here."""
