"""Plans for sandboxes in which a shell runs a few lines."""

import secrets
from pathlib import Path
from typing import Any

from gatepost.sandboxes.contract import Mount, SandboxPlan


def make_shell_plan(script: str, *mounts: Mount, **fields: Any) -> SandboxPlan:
    """`fields`: what shall be otherwise."""
    usual = {"name": f"gatepost-test-{secrets.token_hex(8)}", "env": {"PATH": "/usr/bin:/bin"}, "cwd": "/"}
    return SandboxPlan(mounts=mounts, command=("/bin/sh", "-c", script), **{**usual, **fields})


def share(folder: Path) -> Mount:
    return Mount(source=folder, target="/shared", writable=True)
