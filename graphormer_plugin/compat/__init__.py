"""Everything of fairseq that this package replaces: `compat.patches` lists it."""
