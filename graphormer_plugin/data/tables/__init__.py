"""Tables of molecules: formats, cells and labels."""
