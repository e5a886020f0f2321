"""A run's record, read: steps, episodes, what is interesting, what was marked; no screen, no terminal."""
