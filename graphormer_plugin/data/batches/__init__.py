"""Batches of graphs: which graphs, which fields, and their padded arrays."""
