"""Start a training from other weights: transfer, layer-wise options, published models."""
