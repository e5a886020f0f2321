"""Amounts of money in cents: split, rounded, written."""


def split(amount, weights):
    """An amount in parts proportional to weights that sum exactly to it.

    Each part is rounded down, and the cents left over go to the largest remainders, the first of equal ones.
    """
    total = sum(weights)
    parts = [amount * weight // total for weight in weights]
    remainders = [amount * weight % total for weight in weights]
    left = amount - sum(parts)
    for i in sorted(range(len(weights)), key=lambda i: (-remainders[i], i))[:left]:
        parts[i] += 1
    return parts


def settle(paid):
    """Payments that make all equal, as [who, to whom, cents], where {name: cents} were paid for all.

    Who owes most pays whom most is owed, until nobody owes anything. Uneven cents stay with those who come last.
    """
    people = sorted(paid)
    due = split(sum(paid.values()), [1] * len(people)) if people else []
    balance = {name: paid[name] - share for name, share in zip(people, due, strict=True)}
    payments = []
    while any(balance.values()):
        debtor = min(people, key=lambda name: (balance[name], name))
        creditor = max(people, key=lambda name: (balance[name], name))
        cents = min(-balance[debtor], balance[creditor])
        balance[debtor] += cents
        balance[creditor] -= cents
        payments.append([debtor, creditor, cents])
    return payments


def written(cents):
    """Cents as '1,234.56', with a minus sign in front if negative."""
    sign = "-" if cents < 0 else ""
    whole, rest = divmod(abs(cents), 100)
    return f"{sign}{whole:,}.{rest:02d}"


def after_interest(cents, percent, years):
    """Cents after some years of interest, which is added once a year and rounded to the nearest cent, half up."""
    for _ in range(years):
        cents += (cents * percent + 50) // 100
    return cents
