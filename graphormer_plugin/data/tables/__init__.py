"""Tables of molecules: formats, cells, labels, and the rows that cannot be used."""
