"""Dates as [year, month, day] in the Gregorian calendar."""

LENGTHS = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]


def is_leap(year):
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


def days_in(year, month):
    return 29 if month == 2 and is_leap(year) else LENGTHS[month - 1]


def number(date):
    """Days since the last day of the year 0, so that [1, 1, 1] is 1."""
    year, month, day = date
    before = year - 1
    days = before * 365 + before // 4 - before // 100 + before // 400
    for earlier in range(1, month):
        days += days_in(year, earlier)
    return days + day


def weekday(date):
    """0 for Monday to 6 for Sunday."""
    return (number(date) - 1) % 7


def add_days(date, count):
    """The date a number of days later; count is at least 0."""
    year, month, day = date
    day += count
    while day > days_in(year, month):
        day -= days_in(year, month)
        month += 1
        if month > 12:
            year, month = year + 1, 1
    return [year, month, day]


def add_months(date, count):
    """The same day some months later, or the last of the month if it has no such day."""
    year, month, day = date
    months = year * 12 + month - 1 + count
    year, month = months // 12, months % 12 + 1
    return [year, month, min(day, days_in(year, month))]


def workdays(first, last):
    """How many days from first to last, both included, are neither Saturday nor Sunday."""
    start, end = number(first), number(last)
    return sum((day - 1) % 7 < 5 for day in range(start, end + 1))
