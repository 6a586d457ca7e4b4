"""Convolutions over the edges of sparse batches, and their edge input."""
