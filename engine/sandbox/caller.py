"""Run in the sandbox: calls functions and writes down what they return, one line of JSON a call.

Gets `[[module, function, arguments], …]` on stdin. What the called code prints itself goes to stderr.
"""

import importlib
import io
import json
import os
import sys

calls = json.load(sys.stdin)
answers = os.dup(1)
os.dup2(2, 1)
sys.stdin = io.StringIO()

for module, function, arguments in calls:
    try:
        value = getattr(importlib.import_module(module), function)(*arguments)
    except BaseException as error:  # also an exit: the next call may go well
        line = json.dumps({"error": type(error).__name__, "says": str(error)[:200]})
    else:
        try:
            line = json.dumps({"value": value})
        except Exception as error:
            line = json.dumps({"error": "NoAnswer", "says": f"a result that JSON can't hold: {error}"[:200]})
    os.write(answers, line.encode() + b"\n")
