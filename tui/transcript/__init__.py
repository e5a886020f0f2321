"""A transcript without a terminal: turns as lines, side by side, and how likely each token was."""
