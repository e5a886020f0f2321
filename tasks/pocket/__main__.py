"""`python -m tasks.pocket [--output DIR] [--steps N] [--seed N] [--measure]`: make the embedded model again."""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

# The number of BLAS threads changes the order of sums, hence the last bits, hence the file.
os.environ["OPENBLAS_NUM_THREADS"] = "1"

from engine.inference import blas

blas.load()

from engine.inference.models import POCKET  # noqa: E402  MLX must find OpenBLAS already loaded
from tasks.pocket import strength, training  # noqa: E402


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tasks.pocket", description="Make the embedded model again.")
    parser.add_argument("--output", type=Path, default=POCKET, help="folder to write (default: %(default)s)")
    parser.add_argument("--steps", type=int, default=2200, help="optimiser steps (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of weights and corpus (default: %(default)s)")
    parser.add_argument("--measure", action="store_true", help="only say how strong the model in the folder is")
    options = parser.parse_args()
    started = time.monotonic()

    def report(step: int, loss: float) -> None:
        if step % 50 == 0 or step == options.steps:
            print(f"step {step}  loss {loss:.4f}  {time.monotonic() - started:.0f} s", flush=True)

    if not options.measure:
        training.save(training.train(options.steps, options.seed, report), options.output)
        print(f"wrote {options.output}")
    strength.measure(options.output, print)


if __name__ == "__main__":
    main()
