"""Pictures of a chart: in the cells of a terminal, as SVG, as PNG, and its numbers as a table."""
