"""Compiles the locks with hashes and without index addresses: `make lock`. Needs pip-tools in this environment.

`requirements.lock` is what the gateway needs (and hatchling, which builds it), `requirements-test.lock` what its tests
need besides, the libraries of providers among it, `requirements-platforms.lock` what `make test-all` adds, and
`requirements-site.lock` what makes a site of the documentation. Resolved on
the oldest Python that we support; a test checks that newer ones and macOS need nothing more. With --keep (`make lock
ARGS=--keep`) versions that are locked stay.
"""

import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OPTIONS = (
    "--quiet",
    "--generate-hashes",
    "--strip-extras",
    "--allow-unsafe",
    "--no-header",
    "--no-emit-index-url",
    "--no-emit-trusted-host",
    "--no-emit-find-links",
    "--no-emit-options",
)
LOCKS = ("requirements.lock", "requirements-test.lock", "requirements-platforms.lock", "requirements-site.lock")
EXTRAS = ("claude", "pydantic-ai")  # what drives Claude Code, by itself or as a model, is among the tests
TEST, PLATFORMS, SITE = "test", "platforms", "site"  # groups of pyproject.toml; the last two are not for `make test`
HEADER = "# Compiled by `make lock`. Not to be edited.\n"
PACKAGE = re.compile(r"^(?=[A-Za-z0-9])", re.MULTILINE)


def compile_lock(output: Path, *more: str) -> None:
    command = [sys.executable, "-m", "piptools", "compile", *OPTIONS, *more, f"--output-file={output}"]
    subprocess.run([*command, str(ROOT / "pyproject.toml")], check=True, cwd=ROOT)


def write_group(folder: str, name: str) -> str:
    """Write what a group of pyproject.toml needs to a file, because pip-tools reads no groups. Return its path."""
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["dependency-groups"]
    path = Path(folder, f"{name}.in")
    path.write_text("".join(f"{line}\n" for line in groups[name]))
    return str(path)


def packages(text: str) -> dict[str, str]:
    """Each package's lines by its name; without the paths that `via` comments may hold."""
    blocks = [block for block in PACKAGE.split(text) if "==" in block]
    return {block.partition("==")[0]: re.sub(r"^ +# .*\n", "", block, flags=re.MULTILINE) for block in blocks}


def pins() -> str:
    """Return what is locked now, without hashes."""
    text = "".join((ROOT / name).read_text(encoding="utf-8") for name in LOCKS if (ROOT / name).exists())
    return "".join(f"{found}\n" for found in re.findall(r"^[A-Za-z0-9][^ ]*==[^ ;\\]+", text, re.MULTILINE))


def write(name: str, blocks: dict[str, str]) -> None:
    (ROOT / name).write_text(HEADER + "".join(blocks[each] for each in sorted(blocks)), encoding="utf-8")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        core, kept = Path(folder, "core.txt"), Path(folder, "kept.txt")
        test, everything, site = Path(folder, "test.txt"), Path(folder, "all.txt"), Path(folder, "site.txt")
        kept.write_text(pins() if "--keep" in sys.argv[1:] else "")
        compile_lock(core, "--build-deps-for=editable", f"--constraint={kept}")
        more = [*(f"--extra={name}" for name in EXTRAS), write_group(folder, TEST)]
        compile_lock(test, *more, f"--constraint={core}", f"--constraint={kept}")
        more.append(write_group(folder, PLATFORMS))
        compile_lock(everything, *more, f"--constraint={test}", f"--constraint={kept}")
        compile_lock(site, write_group(folder, SITE), f"--constraint={everything}", f"--constraint={kept}")
        needed, tests, all_of_it, pages = (packages(each.read_text()) for each in (core, test, everything, site))
    write(LOCKS[0], needed)
    write(LOCKS[1], {name: block for name, block in tests.items() if name not in needed})
    write(LOCKS[2], {name: block for name, block in all_of_it.items() if name not in tests})
    write(LOCKS[3], {name: block for name, block in pages.items() if name not in needed})


if __name__ == "__main__":
    main()
