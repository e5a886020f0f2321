"""A list of options of which a click chooses one, and a second opens it: what opens may be hours of work."""

from __future__ import annotations

from textual import events
from textual.widgets import OptionList


class Entries(OptionList):
    """As `OptionList`, where one click would do both."""

    def on_click(self, event: events.Click) -> None:
        event.prevent_default()
        place = event.style.meta.get("option")
        if place is not None and not self.options[place].disabled:
            self.highlighted = place
            if event.chain > 1:
                self.action_select()
