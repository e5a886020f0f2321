"""What can be put into a form: reward functions and tasks by name, each with what it says of itself."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from engine.config import Config
from tui.text import fit, one_line
from tui.theme import Palette, style
from tui.widgets.painted import Line, cut

WORDS = {"rewards": "reward", "tasks": "task"}
"""A table of a section in a word."""


@dataclass(frozen=True, slots=True)
class Offer:
    """A reward function or a task."""

    section: str
    """`"rewards"` or `"tasks"`."""
    name: str
    help: str

    @property
    def title(self) -> str:
        return f"{WORDS[self.section]} {self.name}"


def offers(functions: Iterable[str], config: Config) -> list[Offer]:
    """All there are by name: the task's own `functions` that aren't weighed yet, others, tasks."""
    from engine.rewards import named
    from engine.task import built_in

    own = [name for name in functions if name not in config.rewards]
    return [
        *(Offer("rewards", name, "The task's own: give it another weight, or none.") for name in own),
        *(Offer("rewards", name, told) for name, told in named.built_in().items() if name not in own),
        *(Offer("tasks", name, told) for name, told in built_in().items()),
    ]


def matching(found: Sequence[Offer], wanted: str) -> list[Offer]:
    """Those in which each of the words occurs; of a Python file's name, what is in that file."""
    name = wanted.strip()
    if ".py" in name:
        return [
            Offer("rewards", name, "A function in a file of yours, as ./file.py:function; see docs/tasks.md."),
            Offer("tasks", name, "A task in a file of yours, as ./file.py:ClassName; see docs/tasks.md."),
        ]
    words = wanted.lower().split()
    return [o for o in found if all(word in f"{o.title} {o.help}".lower() for word in words)]


def offer_line(offer: Offer, cells: int, colours: Palette, chosen: bool) -> Line:
    """One in a line."""
    return cut(
        (
            (f" {'▸' if chosen else ' '} {WORDS[offer.section]:<7}", style(colours.soft)),
            (
                fit(one_line(offer.name, 60), 22) + " ",
                style(colours.accent if chosen else colours.text, bold=chosen),
            ),
            (one_line(offer.help), style(colours.soft)),
        ),
        cells,
    )
