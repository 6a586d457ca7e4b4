"""Start a training from other weights, in this package's or a published checkpoint."""
