"""What depends on what: {name: [names that have to come before it]}."""

import heapq


def names(needs):
    """All names, also those that are only needed, in alphabetical order."""
    return sorted(set(needs).union(*needs.values()))


def order(needs):
    """All names in an order that respects the needs, alphabetical where there is a choice.

    Raises ValueError if there is a cycle.
    """
    waiting = {name: len(set(needs.get(name, []))) for name in names(needs)}
    needed_by = {name: [] for name in waiting}
    for name in needs:
        for earlier in set(needs[name]):
            needed_by[earlier].append(name)
    ready = [name for name in waiting if waiting[name] == 0]
    heapq.heapify(ready)
    ordered = []
    while ready:
        name = heapq.heappop(ready)
        ordered.append(name)
        for later in needed_by[name]:
            waiting[later] -= 1
            if waiting[later] == 0:
                heapq.heappush(ready, later)
    if len(ordered) < len(waiting):
        raise ValueError("the needs go round in a circle")
    return ordered


def all_needs(needs, name):
    """Everything that has to come before a name, directly or not, in alphabetical order."""
    found = set()
    waiting = list(needs.get(name, []))
    while waiting:
        earlier = waiting.pop()
        if earlier not in found:
            found.add(earlier)
            waiting.extend(needs.get(earlier, []))
    return sorted(found)


def levels(needs):
    """The names in groups: those without needs first, then those whose needs are all in earlier groups."""
    level = {}
    for name in order(needs):
        level[name] = 1 + max([level[earlier] for earlier in needs.get(name, [])], default=-1)
    groups = [[] for _ in range(1 + max(level.values(), default=-1))]
    for name in sorted(level):
        groups[level[name]].append(name)
    return groups
