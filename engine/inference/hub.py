"""The model hub and what it left in the local cache. No MLX here."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.inference.facts import WEIGHT_FILES

POCKET = Path(__file__).resolve().parent.parent / "pocket"
"""The model that comes with the engine."""

CONNECT_SECONDS = 10.0
"""How long the hub may take to answer."""
FILES = ["*.json", WEIGHT_FILES, "tokenizer.model", "*.tiktoken", "*.txt", "*.jinja"]
SPARE_BYTES = 100_000_000
"""What a download leaves free on the disk."""


class HubError(Exception):
    """A model that can't be had from the hub: which, why, and what would help."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    folder: Path
    obstacle: str = ""
    """Why the hub wasn't asked, where this is the local cache's copy."""


def is_id(source: str) -> bool:
    """Whether a source is meant as a hub's `owner/name`, and not as a path."""
    path = Path(source).expanduser()
    is_path = path.exists() or path.is_absolute() or source.startswith((".", "~")) or path.suffix == ".gguf"
    return not is_path and source.count("/") == 1


def cached() -> Iterator[tuple[str, Path | None]]:
    """The ids of the models in the local cache, by name, each with its folder; None where it isn't whole."""
    from huggingface_hub import scan_cache_dir
    from huggingface_hub.errors import CacheNotFound

    try:
        repositories = scan_cache_dir().repos
    except (CacheNotFound, ValueError):  # there is none, or something else has its place
        return
    for source in sorted(repository.repo_id for repository in repositories if repository.repo_type == "model"):
        yield source, folder(source)


def folder(source: str) -> Path | None:
    """Where the local cache has a model; None if it hasn't the whole of it. Asks nobody."""
    from huggingface_hub import snapshot_download

    try:
        found = Path(snapshot_download(source, allow_patterns=FILES, local_files_only=True))
    except (OSError, ValueError):
        return None
    return found if (found / "config.json").exists() and list(found.glob(WEIGHT_FILES)) else None


def download(source: str, check_room: bool = False) -> Snapshot:
    """The hub's copy of a model; the local cache's where the hub can't be asked.

    With `check_room` the disk is looked at before; that costs the hub a question more.

    Raises:
        HubError: if there is none.
    """
    from huggingface_hub import HfApi, constants, snapshot_download
    from huggingface_hub.errors import (
        GatedRepoError,
        HFValidationError,
        LocalEntryNotFoundError,
        RepositoryNotFoundError,
    )

    obstacle = "HF_HUB_OFFLINE is set" if constants.HF_HUB_OFFLINE else ""
    gated = f"{source!r} is given only to those who accepted its terms: do so at its page, then `hf auth login`"
    if not obstacle:
        try:
            HfApi().model_info(source, timeout=CONNECT_SECONDS)  # one bounded question before a long download
        except HFValidationError as error:
            raise HubError(f"{source!r} is no hub id: {error}") from error
        except GatedRepoError as error:
            raise HubError(gated) from error
        except RepositoryNotFoundError as error:
            raise HubError(
                f"{source!r}: the hub has no such model, or it needs a login (`hf auth login`)"
            ) from error
        except Exception as error:  # the HTTP library and its errors differ between versions of the hub's client
            obstacle = f"the hub can't be reached ({error})"
    if check_room and not obstacle:
        _check_room(source)
    try:
        found = snapshot_download(source, allow_patterns=FILES, local_files_only=bool(obstacle))
    except GatedRepoError as error:
        raise HubError(gated) from error
    except LocalEntryNotFoundError as error:
        raise HubError(
            f"{source!r} isn't complete in the local cache and {obstacle or error}. "
            f"Connect, give a local folder in MLX format, or use 'pocket'"
        ) from error
    except Exception as error:
        if isinstance(error, OSError) and error.errno == errno.ENOSPC:
            raise HubError(f"{source!r}: the disk of {constants.HF_HUB_CACHE} is full") from error
        raise HubError(f"{source!r}: the download broke off: {error}. Try again") from error
    return Snapshot(Path(found), obstacle)


def _check_room(source: str) -> None:
    """Refuse what the disk has no room for."""
    from huggingface_hub import constants, snapshot_download
    from tqdm.auto import tqdm

    class Silent(tqdm):
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **{**options, "disable": True})

    try:
        files = snapshot_download(source, allow_patterns=FILES, dry_run=True, tqdm_class=Silent)
    except Exception:  # whatever it is, the download meets it again and tells
        return
    missing = sum(file.file_size or 0 for file in files if file.will_download)
    cache = Path(constants.HF_HUB_CACHE)
    free = shutil.disk_usage(next(path for path in (cache, *cache.absolute().parents) if path.exists())).free
    if missing + SPARE_BYTES > free:
        raise HubError(
            f"{source!r} needs {missing / 1e9:.1f} GB and the disk of {cache} has {free / 1e9:.1f} GB free. "
            f"Make room, or set HF_HOME to a folder on another disk"
        )
