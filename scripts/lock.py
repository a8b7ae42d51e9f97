"""Compiles the locks with hashes and without index addresses: `make lock`. Needs pip-tools in this environment.

`requirements.lock` is what the gateway needs (and hatchling, which builds it), `requirements-test.lock` what its tests
need besides. Resolved on the oldest Python that we support; a test checks that newer ones and macOS need nothing more.
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OPTIONS = (
    "--quiet",
    "--generate-hashes",
    "--strip-extras",
    "--allow-unsafe",
    "--build-deps-for=editable",
    "--no-header",
    "--no-emit-index-url",
    "--no-emit-trusted-host",
    "--no-emit-find-links",
    "--no-emit-options",
)
HEADER = "# Compiled by `make lock`. Not to be edited.\n"
PACKAGE = re.compile(r"^(?=[A-Za-z0-9])", re.MULTILINE)


def compile_lock(output: Path, *more: str) -> None:
    command = [sys.executable, "-m", "piptools", "compile", *OPTIONS, *more, f"--output-file={output}"]
    subprocess.run([*command, str(ROOT / "pyproject.toml")], check=True, cwd=ROOT)


def packages(text: str) -> dict[str, str]:
    """Each package's lines by its name; without the paths that `via` comments may hold."""
    blocks = [block for block in PACKAGE.split(text) if "==" in block]
    return {block.partition("==")[0]: re.sub(r"^ +# .*\n", "", block, flags=re.MULTILINE) for block in blocks}


def write(name: str, blocks: dict[str, str]) -> None:
    (ROOT / name).write_text(HEADER + "".join(blocks[each] for each in sorted(blocks)), encoding="utf-8")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        core, everything = Path(folder, "core.txt"), Path(folder, "all.txt")
        compile_lock(core)
        compile_lock(everything, "--extra=test", f"--constraint={core}")
        needed, tests = packages(core.read_text()), packages(everything.read_text())
    write("requirements.lock", needed)
    write("requirements-test.lock", {name: block for name, block in tests.items() if name not in needed})


if __name__ == "__main__":
    main()
