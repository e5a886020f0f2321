"""Rewards, health, status and verdict as lines to paint: from the store's numbers to aligned words."""

from tui.readouts.banners import failure, held_up
from tui.readouts.rewarded import rewards
from tui.readouts.statusline import STATES, status
from tui.readouts.titles import gists, legend, verdict
from tui.readouts.wellbeing import LEVELS, gist, health

__all__ = [
    "LEVELS",
    "STATES",
    "failure",
    "gist",
    "gists",
    "health",
    "held_up",
    "legend",
    "rewards",
    "status",
    "verdict",
]
