"""The plots: as many charts as there is something to draw, drawn when they are looked at."""

from __future__ import annotations

from textual.containers import VerticalScroll

from tui.charts import ChartModel
from tui.widgets.chart import Chart

LOW, HIGH = 8, 14
"""Lines of a chart, at least and at most."""


class Plots(VerticalScroll, can_focus=True):
    """Charts one under the other; those out of sight wait."""

    DEFAULT_CSS = """
    Plots { scrollbar-size-vertical: 1; }
    """

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._models: list[ChartModel] = []

    async def show(self, models: list[ChartModel]) -> None:
        charts = list(self.query(Chart))
        self._models = models
        if len(models) > len(charts):
            await self.mount_all(Chart() for _ in range(len(models) - len(charts)))
        self._fit()
        self._fill()

    def _fit(self) -> None:
        """Heights that fill the pane with whole charts."""
        room, many = self.size.height, len(self._models)
        if not room or not many:
            return
        visible = max(1, min(many, room // LOW))
        high, spare = divmod(min(room, visible * HIGH), visible)
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
