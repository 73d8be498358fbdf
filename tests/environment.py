"""Sets the environment of every test: no configuration, keys or home of whoever runs them.

A plugin of pytest's (``-p`` in pyproject.toml), because pytest-django reads the settings, and with
them the data directory, before any conftest is imported.
"""

import atexit
import os
import shutil
import tempfile

# Nothing of a developer's own configuration reaches a test.
for _name in [name for name in os.environ if name.startswith("MOCHI_") and "_E2E_" not in name]:
    del os.environ[_name]
# Nor do keys, with which a test would ask the real vendors; the live tests have names of their own.
for _vendor in ("ANTHROPIC", "GEMINI", "GOOGLE", "OPENAI", "OPENROUTER"):
    os.environ.pop(f"{_vendor}_API_KEY", None)
for _variable in ("MOCHI_DATA_DIR", "XDG_STATE_HOME"):
    os.environ[_variable] = tempfile.mkdtemp(prefix="mochi-tests-")
    atexit.register(shutil.rmtree, os.environ[_variable], ignore_errors=True)
os.environ["MOCHI_BACKGROUND_WORKER"] = "false"  # tests/functional/worker starts it
