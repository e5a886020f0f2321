"""When tasks can be done: {name: length} and {name: [names that have to come before it]}."""

from .dates import add_days, weekday
from .graph import order


def starts(lengths, needs):
    """When each task can begin at the earliest, the first at 0."""
    begins = {}
    for name in order({task: needs.get(task, []) for task in lengths}):
        begins[name] = max([begins[earlier] + lengths[earlier] for earlier in needs.get(name, [])], default=0)
    return begins


def finish(lengths, needs):
    """When everything is done at the earliest."""
    begins = starts(lengths, needs)
    return max([begins[name] + lengths[name] for name in lengths], default=0)


def slack(lengths, needs):
    """How much later than necessary each task may begin without delaying the whole."""
    end = finish(lengths, needs)
    latest = {}
    for name in reversed(order({task: needs.get(task, []) for task in lengths})):
        followers = [task for task in lengths if name in needs.get(task, [])]
        latest[name] = min([latest[task] for task in followers], default=end) - lengths[name]
    begins = starts(lengths, needs)
    return {name: latest[name] - begins[name] for name in lengths}


def critical(lengths, needs):
    """The tasks that may not begin later, in the order of their starts, alphabetical at the same time."""
    begins, spare = starts(lengths, needs), slack(lengths, needs)
    return [name for name in sorted(lengths, key=lambda task: (begins[task], task)) if spare[name] == 0]


def end_date(first, days):
    """The date of the last of some working days (at least 1), of which the first is on or after a date."""
    date = first
    while weekday(date) > 4:
        date = add_days(date, 1)
    for _ in range(days - 1):
        date = add_days(date, 3 if weekday(date) == 4 else 1)
    return date
