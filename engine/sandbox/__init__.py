"""The sandbox: where code that a model wrote is run, and functions of it are called."""

from engine.sandbox.calling import Call, Outcome, call_python, same_value
from engine.sandbox.running import Finished, Limits, SandboxError, run_python

__all__ = ["Call", "Finished", "Limits", "Outcome", "SandboxError", "call_python", "run_python", "same_value"]
