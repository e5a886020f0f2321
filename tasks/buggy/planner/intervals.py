"""Spans of time as [start, end], the end not included."""


def merged(spans):
    """The union as ascending spans without overlap. Spans that touch become one; empty ones are left out."""
    union = []
    for start, end in sorted(spans):
        if start >= end:
            continue
        if union and start <= union[-1][1]:
            union[-1][1] = max(union[-1][1], end)
        else:
            union.append([start, end])
    return union


def gaps(spans, start, end):
    """What is free between start and end."""
    free = []
    for busy_from, busy_to in merged(spans):
        if busy_to <= start or busy_from >= end:
            continue
        if busy_from > start:
            free.append([start, busy_from])
        start = max(start, busy_to)
    if start < end:
        free.append([start, end])
    return free


def first_fit(spans, length, start, end):
    """When something of a length can begin at the earliest; None if nowhere."""
    for free_from, free_to in gaps(spans, start, end):
        if free_to - free_from >= length:
            return free_from
    return None


def most_at_once(spans):
    """How many spans overlap at most. One that ends as another begins doesn't overlap it."""
    changes = []
    for start, end in spans:
        if start < end:
            changes.append((start, 1))
            changes.append((end, -1))
    most = now = 0
    for _, change in sorted(changes):
        now += change
        most = max(most, now)
    return most
