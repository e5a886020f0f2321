"""Rows of a file or of a data set of the hub, one by one, each with the place where it stands.

Neither a byte nor a line is taken on trust: what can't be read is a `DataError` that names file and line. Packages
that only some sources need are loaded when one is read.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

LONGEST_LINE = 16_000_000
"""Bytes of a line: beyond, a file is no list of rows, and is not read into memory to find out."""
LARGEST_JSON = 500_000_000
"""Bytes of a JSON list, which is read whole."""
CONNECT_SECONDS = 10.0
"""How long the hub may take to answer."""
HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+")
SUFFIXES = (".jsonl", ".ndjson", ".json", ".csv", ".tsv", ".parquet")
INSTALL = "needs a package that isn't installed: pip install 'selfplay-tui[data]'"

Row = tuple[str, dict[str, Any]]
"""Where it stands, as in `sums.csv, line 3`, and its columns."""


class DataError(ValueError):
    """A data set that can't be read: says where, and what was expected."""


def is_on_hub(source: str) -> bool:
    """Whether this is the id of a data set of the hub, and not a path."""
    return not Path(source).exists() and bool(HUB_ID.fullmatch(source)) and not source.endswith(SUFFIXES)


def rows_of(source: str, config: str, split: str) -> Iterator[Row]:
    """The rows of a file, of a folder laid out like a data set of the hub, or of one of the hub by its id."""
    path = Path(source).expanduser()
    if is_on_hub(source) or path.is_dir():
        return _of_hub(source if is_on_hub(source) else str(path), config, split)
    if path.suffix not in SUFFIXES:
        raise DataError(
            f"{source}: a data set is a file ({', '.join(SUFFIXES)}), or an id of the hub such as owner/name"
        )
    if not path.is_file():
        raise DataError(f"{source}: no file at {path.resolve()}")
    if path.suffix == ".parquet":
        return _of_parquet(path)
    if path.suffix == ".json":
        return _of_json(path)
    return _of_lines(path) if path.suffix in (".jsonl", ".ndjson") else _of_table(path)


def _of_lines(path: Path) -> Iterator[Row]:
    for number, line in enumerate(_lines(path), 1):
        if line.strip():
            yield (
                f"{path}, line {number}",
                _object(_parsed(line.rstrip("\r\n"), path, number), f"{path}, line {number}"),
            )


def _of_json(path: Path) -> Iterator[Row]:
    if path.stat().st_size > LARGEST_JSON:
        raise DataError(
            f"{path}: over {LARGEST_JSON:,} bytes; as large a data set has to be .jsonl, one row a line"
        )
    rows = _parsed("".join(_lines(path)), path)
    if not isinstance(rows, list):
        raise DataError(f"{path}: expected a list of objects, found {kind_of(rows)}")
    for number, row in enumerate(rows, 1):
        yield f"{path}, entry {number}", _object(row, f"{path}, entry {number}")


def _of_table(path: Path) -> Iterator[Row]:
    """CSV with a header, or the same with tabs."""
    table = csv.reader(_lines(path), delimiter="\t" if path.suffix == ".tsv" else ",", strict=True)
    columns: list[str] = []
    while True:
        place = f"{path}, line {table.line_num + 1}"
        try:
            row = next(table, None)
        except csv.Error as error:
            raise DataError(f"{place}: {error}") from None
        if row is None:
            return
        if not columns:
            columns = row
            if len(set(columns)) != len(columns) or "" in (name.strip() for name in columns):
                raise DataError(f"{place}: expected the names of columns, all different, found {row!r:.200}")
        elif row:
            if len(row) != len(columns):
                raise DataError(f"{place}: {len(row)} fields where the header has {len(columns)}")
            yield place, dict(zip(columns, row, strict=True))


def _of_parquet(path: Path) -> Iterator[Row]:
    try:
        from pyarrow import ArrowException, parquet
    except ImportError:
        raise DataError(f"{path}: reading Parquet {INSTALL}") from None
    numbers = count(1)
    try:
        with parquet.ParquetFile(path) as file:
            for batch in file.iter_batches():
                for row in batch.to_pylist():
                    yield f"{path}, row {next(numbers)}", row
    except (ArrowException, OSError) as error:
        raise DataError(f"{path}: no Parquet file that can be read: {error}") from error


def _of_hub(source: str, config: str, split: str) -> Iterator[Row]:
    """Rows by the `datasets` library: the hub's copy, or its cache's where the hub can't be reached."""
    try:
        import datasets
    except ImportError:
        raise DataError(f"{source}: a data set of the hub {INSTALL}") from None
    obstacle = _obstacle(source) if is_on_hub(source) else "a folder"
    try:
        with _quiet(offline=bool(obstacle)):
            found = datasets.load_dataset(source, config or None, split=split)
    except Exception as error:  # the library raises whatever lies at the bottom of it
        which = f"{source} (config {config or 'default'!r}, split {split!r})"
        why = f"{type(error).__name__}: {error}"
        if is_on_hub(source):
            why = f"there is no such file, and {obstacle or 'as a data set of the hub it fails'} ({why})"
        raise DataError(f"{which}: no data set that can be read: {why}") from error
    for number, row in enumerate(found, 1):
        yield f"{source} ({split}), row {number}", dict(row)


def _obstacle(source: str) -> str:
    """Why the hub can't be asked, by one bounded question: the library itself would try for half a minute."""
    from huggingface_hub import HfApi, constants
    from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError

    if constants.HF_HUB_OFFLINE:
        return "HF_HUB_OFFLINE is set"
    try:
        HfApi().dataset_info(source, timeout=CONNECT_SECONDS)
    except GatedRepoError as error:
        raise DataError(f"{source}: accept the terms at its page of the hub, then `hf auth login`") from error
    except RepositoryNotFoundError as error:
        which = "neither a file nor a data set of the hub, or one that needs a login (`hf auth login`)"
        raise DataError(f"{source}: {which}") from error
    except Exception as error:  # the HTTP library and its errors differ between versions of the hub's client
        return f"the hub can't be reached ({error}), nor is it in the local cache"
    return ""


@contextmanager
def _quiet(*, offline: bool) -> Iterator[None]:
    """The libraries without bars and complaints on a screen that isn't theirs; `offline` with their cache alone."""
    import datasets
    from huggingface_hub import constants, logging, utils

    was, level, had_bars = constants.HF_HUB_OFFLINE, logging.get_verbosity(), not utils.are_progress_bars_disabled()
    datasets.disable_progress_bars()
    datasets.logging.set_verbosity_error()
    logging.set_verbosity_error()
    utils.disable_progress_bars()
    constants.HF_HUB_OFFLINE = was or offline
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE = was
        logging.set_verbosity(level)
        if had_bars:
            utils.enable_progress_bars()


def _lines(path: Path) -> Iterator[str]:
    """The lines of a text file, their ends included; neither a byte nor a line is taken on trust."""
    offset = 0
    with path.open("rb") as file:
        for number in count(1):
            line = file.readline(LONGEST_LINE + 1)
            if not line:
                return
            place = f"{path}, line {number}"
            if number == 1 and line.startswith((b"\xff\xfe", b"\xfe\xff")):
                raise DataError(f"{place}: this is UTF-16; expected UTF-8")
            if len(line) > LONGEST_LINE:
                raise DataError(f"{place}: over {LONGEST_LINE:,} bytes; expected one row a line")
            try:
                yield line.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError as error:
                byte = f"byte 0x{line[error.start]:02x} at offset {offset + error.start}"
                raise DataError(f"{place}: {byte} is not UTF-8; save the file in that encoding") from None
            offset += len(line)


def _parsed(text: str, path: Path, first: int = 1) -> Any:
    """The JSON value of a text that begins in line `first` of a file."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        place = f"{path}, line {first + error.lineno - 1}"
        raise DataError(f"{place}: not JSON: {error.msg} at column {error.colno}") from None
    except (RecursionError, ValueError) as error:
        raise DataError(f"{path}, from line {first}: JSON that can't be read: {error}") from None


def _object(value: Any, place: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise DataError(f'{place}: expected an object such as {{"prompt": …, "answer": …}}, found {kind_of(value)}')
    return value


def kind_of(value: Any) -> str:
    """What a value is, in words, and its beginning."""
    names = {dict: "an object", list: "a list", str: "a text", bool: "true or false"}
    kind = names.get(type(value), "a number" if isinstance(value, int | float) else type(value).__name__)
    return "nothing (null)" if value is None else f"{kind}: {value!r:.60}"
