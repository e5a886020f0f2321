"""Tables of what is debated, judged and written about. No tasks."""
