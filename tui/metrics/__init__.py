"""Metrics without a terminal: which are drawn, how they are looked at, and what each means."""
