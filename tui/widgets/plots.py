"""The plots: as many charts as there is something to draw, drawn when they are looked at."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.message import Message

from tui.widgets.chart import Chart

if TYPE_CHECKING:
    from tui.drawing.model import ChartModel

LOW, HIGH = 8, 14
"""Lines of a chart, at least and at most."""


class Plots(VerticalScroll, can_focus=True):
    """Charts one under the other; those out of sight wait. Enter, or a click on a chart, asks for a closer look."""

    DEFAULT_CSS = """
    Plots { scrollbar-size-vertical: 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "open", "Look closely", show=False)]

    class Opened(Message):
        """A chart is to be looked at closely; None where there is none yet."""

        def __init__(self, model: ChartModel | None) -> None:
            super().__init__()
            self.model = model

    def __init__(self, *, id: str | None = None, kind: type[Chart] = Chart, high: int = HIGH) -> None:
        super().__init__(id=id)
        self.kind = kind
        self.high = high
        self._models: list[ChartModel] = []

    async def show(self, models: list[ChartModel]) -> None:
        charts = list(self.query(Chart))
        self._models = models
        if len(models) > len(charts):
            await self.mount_all(self.kind() for _ in range(len(models) - len(charts)))
        for place, chart in enumerate(self.query(Chart)):
            if chart.display != (place < len(models)):
                chart.display = place < len(models)
        self._fit()
        self._fill()

    def move_cursor(self, step: float | None) -> None:
        """Points every chart that is shown at a step; None takes the cursor away. Lasts until the next `show`."""
        for chart in self.query(Chart):
            chart.cursor = step

    @property
    def at_top(self) -> ChartModel | None:
        """The first chart that is wholly in sight."""
        top = self.scroll_offset.y
        shown = zip(self.query(Chart), self._models, strict=False)
        return next((model for chart, model in shown if chart.virtual_region.y >= top), None)

    def action_open(self) -> None:
        self.post_message(self.Opened(self.at_top))

    def on_chart_clicked(self, message: Chart.Clicked) -> None:
        self.post_message(self.Opened(message.chart.model))

    def _fit(self) -> None:
        """Heights that fill the pane with whole charts."""
        room, many = self.size.height, len(self._models)
        if not room or not many:
            return
        visible = max(1, min(many, room // LOW))
        high, spare = divmod(min(room, visible * self.high), visible)
        for place, chart in enumerate(self.query(Chart)):
            wanted = high + (place < spare)
            if chart.styles.height is None or chart.styles.height.value != wanted:
                chart.styles.height = wanted

    def _fill(self) -> None:
        top = self.scroll_offset.y
        bottom = top + self.size.height
        for chart, model in zip(self.query(Chart), self._models, strict=False):
            region = chart.virtual_region
            seen = region.bottom > top and region.y < bottom
            if chart.model is None or seen:
                chart.show(model)

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        self.call_after_refresh(self._fill)

    def on_resize(self) -> None:
        self._fit()
        self.call_after_refresh(self._fill)
