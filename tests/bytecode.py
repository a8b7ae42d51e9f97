"""The share of the test files that a worker compiles before it collects them all.

pytest rewrites and compiles a test file once and keeps that beside it. Workers that begin on a new checkout go through
the files side by side, so each of them would compile each file: a minute of a processor for four workers.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from _pytest.assertion import rewrite


def compile_share(config: pytest.Config, number: int, count: int) -> None:
    """Every `count`th file, from the `number`th on, unless that was done in an earlier run."""
    if sys.dont_write_bytecode:
        return
    state = config.stash[rewrite.assertstate_key]
    for path in sorted(_list_test_files(config))[number::count]:
        folder = rewrite.get_cache_dir(path)
        compiled = folder / f"{path.stem}{rewrite.PYC_TAIL}"
        if compiled.exists() and compiled.stat().st_mtime >= path.stat().st_mtime:
            continue
        try:
            source_hash, code = rewrite._rewrite_test(path, config)
            folder.mkdir(exist_ok=True)
        except (OSError, SyntaxError):
            continue  # the collection says so
        rewrite._write_pyc(state, code, source_hash, compiled)


def _list_test_files(config: pytest.Config) -> Iterator[Path]:
    for argument in config.args:
        place = Path(argument.partition("::")[0]).absolute()
        yield from place.rglob("test_*.py") if place.is_dir() else [place]
