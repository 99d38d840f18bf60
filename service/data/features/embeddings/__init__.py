"""Embeddings of texts: tables of vectors, learned elsewhere, that turn a text into a vector of its meaning."""
