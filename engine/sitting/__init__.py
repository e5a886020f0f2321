"""A person in play: they speak for some roles of an episode, players of the run for the others."""
