"""One experiment: split a table of molecules, train, compare with baselines, report."""
