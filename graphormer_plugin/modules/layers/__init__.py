"""Layers and settings that every architecture shares, and operations on sparse batches."""
