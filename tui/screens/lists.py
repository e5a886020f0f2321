"""The options of Home's lists: which pass the filter, and how they take the place of those before."""

from __future__ import annotations

from collections.abc import Sequence

from textual.widgets import OptionList
from textual.widgets.option_list import Option

from tui.interface import PresetInfo
from tui.listing import group_entry, groups, preset_entry
from tui.theme import Palette


def preset_options(presets: Sequence[PresetInfo], names: int, cells: int, colours: Palette) -> list[Option]:
    """Presets in their groups, each with a line above that can't be chosen; `names` cells for a name."""
    options: list[Option] = []
    for group, members in groups(presets).items():
        right = "" if options else "memory a run takes"
        options.append(Option(group_entry(group, cells, colours, right), disabled=True))
        options += [Option(preset_entry(p, names, cells, colours), id=f"preset:{p.name}") for p in members]
    return options


def passes(words: list[str], *texts: str) -> bool:
    whole = " ".join(texts).lower()
    return all(word in whole for word in words)


def of(shown: int, whole: int) -> str:
    return str(whole) if shown >= whole else f"{shown} of {whole}"


def refill(options: OptionList, new: list[Option], newcomer: str = "") -> None:
    """Replaces the options, keeping the highlight on the one that had it; `newcomer` has it when it comes in."""
    held, before = options.highlighted_option, [option.id for option in options.options]
    options.clear_options()
    options.add_options(new)
    ids = [option.id for option in new if not option.disabled]
    if ids:
        wanted = held.id if held is not None and held.id in ids else ids[0]
        if newcomer in ids and newcomer not in before:
            wanted = newcomer
        options.highlighted = [option.id for option in new].index(wanted)
