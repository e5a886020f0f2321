"""TextArena's environments, one for each rollout: what can be played, what is seen, and whose chance it is."""
