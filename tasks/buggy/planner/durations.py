"""Durations in minutes, written such as '2h 30m'. A working day has eight hours, a week five days."""

UNITS = {"w": 2400, "d": 480, "h": 60, "m": 1}


def minutes(text):
    """The minutes of '1d 2h 30m'; numbers may have a decimal point. Raises ValueError if it can't be read."""
    total = 0.0
    for part in text.split():
        number, unit = part[:-1], part[-1]
        if unit not in UNITS:
            raise ValueError(f"no unit in {part!r}")
        total += float(number) * UNITS[unit]
    return round(total)


def written(total):
    """Minutes in the largest units that fit, such as '1d 2h'; a minus sign in front of negative ones."""
    if total == 0:
        return "0m"
    sign = "-" if total < 0 else ""
    rest = abs(total)
    parts = []
    for unit, size in UNITS.items():
        count, rest = divmod(rest, size)
        if count:
            parts.append(f"{count}{unit}")
    return sign + " ".join(parts)


def rounded(total, step):
    """Minutes rounded up to a multiple of step."""
    return -(-total // step) * step


def longest(texts):
    """The longest of several written durations; the first of equal ones, '' if there is none."""
    best = ""
    for text in texts:
        if not best or minutes(text) > minutes(best):
            best = text
    return best
