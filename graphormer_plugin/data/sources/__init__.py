"""Where graphs come from: registered datasets, tables, code of users."""
