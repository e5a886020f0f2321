"""A chart of our own, on the screen.

    chart = Chart()
    curves = (Curve("nim-1", steps, values), Curve("nim-2", steps, others))
    chart.show(ChartModel("win vs random", curves, x_range=(0, 80)))
    chart.cursor = 40  # a line at step 40, and in the legend each curve's value there; None takes it away

Several curves in one chart are told apart by colour, by dash, and by a sign that stands at a curve's end and
before its name. What is shown is made of plain values, `tui.drawing.model`; `tui.metrics.charts` makes those of a
run, and `tui.metrics.overlay.read` the series of a run's folder.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from textual import events
from textual.message import Message
from textual.strip import Strip

from tui.widgets.painted import BLANK, Line, LineWidget, strip

if TYPE_CHECKING:
    from tui.drawing.model import ChartModel


class Chart(LineWidget):
    """Draws one `ChartModel`, when it is looked at. A click on it is told as `Clicked`."""

    DEFAULT_CSS = """
    Chart { height: 9; }
    """

    class Clicked(Message):
        """Somebody clicked the chart, at `step` where that was among the curves."""

        def __init__(self, chart: Chart, step: float | None) -> None:
            super().__init__()
            self.chart = chart
            self.step = step

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.model: ChartModel | None = None
        self._drawn: tuple[object, list[Line]] = (None, [])

    def show(self, model: ChartModel) -> None:
        self.model = model
        self._drawn = (None, [])
        self.refresh()

    @property
    def cursor(self) -> float | None:
        """The step that is pointed at."""
        return self.model.cursor if self.model else None

    @cursor.setter
    def cursor(self, step: float | None) -> None:
        if self.model and self.model.cursor != step:
            self.show(replace(self.model, cursor=step))

    def step_at(self, x: int) -> float | None:
        """The step that is shown in a column of the widget; None beside the curves."""
        from tui.drawing.cells import LABEL, step_at

        wide = self.size.width - LABEL - 2
        cell = x - LABEL - 1
        return step_at(cell, self.model.x_range, wide) if self.model and 0 <= cell < wide else None

    def render_line(self, y: int) -> Strip:
        from tui.drawing.cells import draw

        key = (self.model, self.size, self.app.theme)
        if self._drawn[0] != key:
            lines = draw(self.model, self.across, self.size.height, self.colours) if self.model else []
            self._drawn = (key, lines)
        lines = self._drawn[1]
        return strip(lines[y] if y < len(lines) else BLANK, self.across, self.ground)

    def on_click(self, event: events.Click) -> None:
        self.post_message(self.Clicked(self, self.step_at(event.x)))
