"""A fast BLAS and a patient allocator under MLX's CPU backend on Linux.

MLX's Linux wheel links the *reference* BLAS, about 5 GFLOP/s. It calls `cblas_sgemm`, `cblas_dgemm` and
`cblas_cgemm`; an OpenBLAS opened with `RTLD_GLOBAL` before `mlx.core` is imported takes their place and
gives 100 GFLOP/s and more. On macOS and with a CUDA backend there is nothing to do.

This module never imports MLX by itself, except in `Blas.measure`.
"""

from __future__ import annotations

import ctypes
import hashlib
import importlib.metadata
import importlib.util
import os
import platform
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import platformdirs

SYSTEM_LIBRARY = "libopenblas.so.0"
PACKAGE = "ngsolve_openblas"
BACKEND_PACKAGE = "mlx-cpu"

# glibc's mallopt names (malloc.h) with values for a process that frees and allocates megabytes in every
# layer: keep the memory instead of giving it back to the kernel and faulting every page in again.
MALLOPT = (
    (-8, 1),  # M_ARENA_MAX: one heap, so that what one thread frees another can use
    (-4, 0),  # M_MMAP_MAX: large blocks come from the heap, never from mmap
    (-1, 1 << 30),  # M_TRIM_THRESHOLD: shrink the heap only when 1 GiB lies free
    (-2, 64 << 20),  # M_TOP_PAD: grow it by 64 MiB at a time
)


@dataclass
class Blas:
    """Which matrix product MLX's CPU backend uses."""

    name: str
    path: Path | None = None
    """The library opened, where it is a file of a package; None for the system's and for MLX's own."""
    warning: str = ""
    """What keeps it from being fast, and what would help; empty if nothing does."""
    library: ctypes.CDLL | None = None

    def set_threads(self, threads: int) -> bool:
        """Let a product use so many threads. An OPENBLAS_NUM_THREADS of the user's stands. Returns if it took."""
        setter = getattr(self.library, "openblas_set_num_threads", None)
        if setter is None or _threads_chosen_by_user:
            return False
        setter(ctypes.c_int(threads))
        return True

    def measure(self, size: int = 512) -> float:
        """GFLOP/s of a float32 product of two [size, size] matrices on the CPU. Imports MLX: device thread only."""
        import mlx.core as mx

        with mx.stream(mx.cpu):
            left = mx.ones((size, size))
            right = mx.ones((size, size))
            mx.eval(left @ right)
            start = time.perf_counter()
            products = 0
            while time.perf_counter() - start < 0.05:
                mx.eval(left @ right)
                products += 1
            return 2 * size**3 * products / (time.perf_counter() - start) / 1e9


_threads_chosen_by_user = "OPENBLAS_NUM_THREADS" in os.environ


@cache
def load(threads: int = 1) -> Blas:
    """Put a fast BLAS under MLX, if this is Linux and MLX has its CPU backend. Never raises for want of one.

    Call it before anything imports `mlx.core`. One thread is nearly as fast as two for small models and
    leaves a core to the app; see `Blas.set_threads` for large ones.
    """
    if sys.platform != "linux":
        return Blas("MLX's own (Accelerate)")
    if not _cpu_backend():
        return Blas("none: MLX has a GPU backend")
    if "mlx.core" in sys.modules:
        return Blas("reference BLAS", warning="MLX was imported before blas.load(), so its products stay slow")
    os.environ.setdefault("OPENBLAS_NUM_THREADS", str(threads))
    keep_memory()
    try:
        return Blas(f"OpenBLAS ({SYSTEM_LIBRARY})", library=ctypes.CDLL(SYSTEM_LIBRARY, ctypes.RTLD_GLOBAL))
    except OSError as error:
        missing = str(error)
    try:
        return _from_packages()
    except (OSError, LookupError) as error:
        return Blas(
            "reference BLAS",
            warning=f"matrix products are some 30 times slower than they could be, because no OpenBLAS could be "
            f"opened ({missing}; {error}). Install libopenblas0 or the extra selfplay-tui[cpu]",
        )


def keep_memory() -> bool:
    """Tell glibc to keep freed memory; returns whether it could be told.

    MLX's CPU backend allocates and frees every intermediate array. With glibc's defaults each one above
    128 kB is a fresh mmap, and the page faults cost more than the arithmetic.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):  # another C library than glibc
        return False
    return all(mallopt(parameter, value) == 1 for parameter, value in MALLOPT)


def _cpu_backend() -> bool:
    try:
        importlib.metadata.distribution(BACKEND_PACKAGE)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def _from_packages() -> Blas:
    """OpenBLAS from PyPI, with the Fortran runtime that came with MLX's wheel.

    The package's library looks for `libgfortran.so.5` beside itself. MLX's wheel carries one under a mangled
    name, so a cache folder holds links to all three under the names they are looked up by.

    Raises:
        LookupError: if a package or a file of it is missing, naming it.
        OSError: if a library can't be opened or the cache folder can't be written.
    """
    openblas = _package_library()
    gfortran, quadmath = _runtime_library("libgfortran"), _runtime_library("libquadmath")
    links = {"libgfortran.so.5": gfortran, quadmath.name: quadmath, openblas.name: openblas}
    folder = _links_folder(links)
    for name in (quadmath.name, "libgfortran.so.5"):
        ctypes.CDLL(str(folder / name), ctypes.RTLD_GLOBAL)
    library = ctypes.CDLL(str(folder / openblas.name), ctypes.RTLD_GLOBAL)
    return Blas(f"OpenBLAS ({PACKAGE.replace('_', '-')})", path=openblas, library=library)


def _package_library() -> Path:
    # find_spec, because importing the package would try to open the library on its own and print an error.
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise LookupError(f"{PACKAGE.replace('_', '-')} is not installed")
    for location in spec.submodule_search_locations:
        for library in sorted(Path(location).glob("libopenblas*.so*")):
            return library.resolve()
    raise LookupError(f"{PACKAGE.replace('_', '-')} holds no libopenblas")


def _runtime_library(stem: str) -> Path:
    files: Iterable[importlib.metadata.PackagePath] = importlib.metadata.distribution(BACKEND_PACKAGE).files or ()
    for file in files:
        if file.name.startswith(stem):
            return Path(str(file.locate())).resolve()
    raise LookupError(f"{BACKEND_PACKAGE} {platform.machine()} holds no {stem}")


def _links_folder(links: dict[str, Path]) -> Path:
    """A folder holding `links`, named after them: two environments never fight over one folder."""
    key = hashlib.sha256(repr(sorted((name, str(target)) for name, target in links.items())).encode()).hexdigest()
    folder = platformdirs.user_cache_path("selfplay-tui") / "blas" / key[:16]
    folder.mkdir(parents=True, exist_ok=True)
    for name, target in links.items():
        link = folder / name
        if not link.exists():
            fresh = folder / f".{name}.{os.getpid()}"
            fresh.unlink(missing_ok=True)
            fresh.symlink_to(target)
            fresh.replace(link)
    return folder
