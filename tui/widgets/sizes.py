"""Sizes of a screen's panes from one day to the next: shares of what they stand in, by the panes' ids."""

from __future__ import annotations

from collections.abc import Mapping

from textual.widget import Widget

from tui.memory import Memory


def kept(widget: Widget) -> dict[str, float]:
    """Those of the screen that the widget is on."""
    memory = _memory(widget)
    return memory.sizes(_name(widget)) if memory is not None else {}


def keep(widget: Widget, sizes: Mapping[str, float]) -> None:
    """Remembers some of them; the others stay as they are."""
    memory = _memory(widget)
    if memory is not None:
        rounded = {name: round(share, 3) for name, share in sizes.items()}
        memory.keep(_name(widget), {**memory.sizes(_name(widget)), **rounded})


def _name(widget: Widget) -> str:
    return f"panes {type(widget.screen).__name__}"


def _memory(widget: Widget) -> Memory | None:
    memory = getattr(widget.app, "memory", None)
    return memory if isinstance(memory, Memory) else None
