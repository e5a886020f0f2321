"""Bugs made by hand, never trained on, that repairs are measured by: module, right line, wrong line.

Every second one is in a module that training never shows.
"""

BUGS: tuple[tuple[str, str, str], ...] = (
    ("dates", "    before = year - 1\n", "    before = year\n"),
    ("formulas", "            result /= _factor(rest, names)\n", "            result /= _product(rest, names)\n"),
    ("durations", "    return -(-total // step) * step\n", "    return total // step * step\n"),
    ("formulas", '    while rest and rest[0] in "*/":\n', '    if rest and rest[0] in "*/":\n'),
    ("graph", "        if earlier not in found:\n", "        if earlier in found:\n"),
    ("formulas", "        return -_factor(rest, names)\n", "        return _factor(rest, names)\n"),
    ("intervals", "        start = max(start, busy_to)\n", "        start = max(start, busy_from)\n"),
    ("shares", "(-remainders[i], i))[:left]", "(remainders[i], i))[:left]"),
    ("schedule", "    for _ in range(days - 1):\n", "    for _ in range(days):\n"),
    ("shares", "    whole, rest = divmod(abs(cents), 100)\n", "    whole, rest = divmod(cents, 100)\n"),
    ("table", "                quoted = False\n", "                quoted = True\n"),
    ("shares", "        cents += (cents * percent + 50) // 100\n", "        cents += (cents * percent) // 100\n"),
)
