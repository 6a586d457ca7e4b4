"""Tasks. fairseq imports every file here, so this folder holds no helpers."""
