"""Graphs, of molecules and others, as arrays."""
