"""Start a training from other weights, in this package's or a published checkpoint."""

# Released codes whose checkpoints `published` reads.
PUBLISHED_CODES = (
    "microsoft-graphormer",
    "huggingface",
    "lenscloth-grpe",
    "csa",
    "graphtransformer",
)
