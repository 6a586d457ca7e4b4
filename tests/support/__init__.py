"""What several test modules use: graphs, tiny models, files, commands in this process."""
