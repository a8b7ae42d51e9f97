"""The programs of others that slow tests drive. `make test-all` installs them; a test skips by name without."""

import os
import sys
from pathlib import Path

FOLDER = "GATEPOST_TEST_PROGRAMS"  # the variable that names another folder than <venv>/programs


def find(name: str) -> Path | None:
    folder = Path(os.environ.get(FOLDER) or Path(sys.prefix) / "programs")
    found = folder / name
    return found.resolve() if found.is_file() and os.access(found, os.X_OK) else None
