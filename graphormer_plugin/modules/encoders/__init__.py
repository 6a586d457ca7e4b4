"""Encoders: each architecture from a batch to vectors of nodes and graphs."""
