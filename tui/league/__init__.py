"""Who is how strong: read from a run's record, rated, and told as lines."""
