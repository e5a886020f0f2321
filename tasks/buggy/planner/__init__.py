"""Plans of small projects: durations, dates, dependencies, costs. Plain functions of plain values."""
