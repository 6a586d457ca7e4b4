"""Tasks. fairseq imports every file here whose name does not start with _."""
