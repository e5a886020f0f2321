"""Rows of text: read from lines with commas, and written in columns."""


def fields(line):
    """The fields of a line. A field in double quotes may hold commas, and "" for a quote."""
    found = []
    field = ""
    quoted = False
    i = 0
    while i < len(line):
        if quoted:
            if line[i] == '"' and line[i + 1 : i + 2] == '"':
                field += '"'
                i += 1
            elif line[i] == '"':
                quoted = False
            else:
                field += line[i]
        elif line[i] == '"':
            quoted = True
        elif line[i] == ",":
            found.append(field)
            field = ""
        else:
            field += line[i]
        i += 1
    return [*found, field]


def records(text):
    """A dictionary for each line after the first, which has the names. Missing fields are ''.

    Empty lines don't count.
    """
    lines = [line for line in text.split("\n") if line.strip()]
    if not lines:
        return []
    header = fields(lines[0])
    found = []
    for line in lines[1:]:
        values = fields(line)
        values += [""] * (len(header) - len(values))
        found.append(dict(zip(header, values, strict=False)))
    return found


def aligned(rows):
    """Rows as lines, the columns as wide as their widest field and two spaces apart; numbers to the right."""
    widths = [max(len(field) for field in column) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = [
            field.rjust(width) if field.lstrip("-").isdigit() else field.ljust(width)
            for field, width in zip(row, widths, strict=True)
        ]
        lines.append("  ".join(cells).rstrip())
    return lines


def totals(rows, key, value):
    """The sums of a column of numbers for each text in another, in the order in which they come first."""
    sums = {}
    for row in rows:
        sums[row[key]] = sums.get(row[key], 0) + int(row[value])
    return sums
