"""Tables: files of molecules, their cells and labels, and the options of tables."""
