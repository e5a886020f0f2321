"""The wall of episodes without a terminal: which stand in which row, as which trees, and as what line."""
