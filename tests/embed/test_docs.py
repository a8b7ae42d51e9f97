"""The example of docs/embed.md, as it stands there: a program of its own, real Claude Code, the scripted model; started
by the very lines that the page tells somebody without a key to type."""

import asyncio
import importlib.util
import os
import re
import sys
from asyncio.subprocess import PIPE
from pathlib import Path

import pytest

from gatepost.embed.claude import NO_KEY

pytestmark = pytest.mark.slow  # real clients and processes, again and again

needs_sdk = pytest.mark.skipif(
    importlib.util.find_spec("claude_agent_sdk") is None,
    reason="claude-agent-sdk is not installed: pip install '.[claude]'",
)
PAGE = Path(__file__).resolve().parents[2] / "docs" / "embed.md"
PATIENCE_S = 100


def shown(mark: str) -> str:
    """The block behind a mark on the page."""
    page = PAGE.read_text(encoding="utf-8")
    return re.findall(rf"<!-- {mark}:.*?-->\n```\w*\n(.*?)```", page, re.DOTALL)[0]


def environment(folder: Path) -> dict[str, str]:
    return {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "HOME": str(folder),
        "CLAUDE_CONFIG_DIR": str(folder / "claude"),
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    }


@needs_sdk
async def test_the_example_runs_without_a_key_as_it_is_shown(tmp_path: Path) -> None:
    (tmp_path / "evening.py").write_text(shown("example"), encoding="utf-8")
    (tmp_path / "evening.json").write_text(shown("script"), encoding="utf-8")
    env, port = environment(tmp_path), "8099"
    assert port in shown("model") and port in shown("run")  # here another, which is free
    line = "exec " + shown("model").replace(port, "0")
    model = await asyncio.create_subprocess_shell(line, cwd=tmp_path, env=env, stdout=PIPE)
    try:
        assert model.stdout is not None
        address = (await asyncio.wait_for(model.stdout.readline(), PATIENCE_S)).decode().strip()
        line = shown("run").replace(f"http://127.0.0.1:{port}", address)
        program = await asyncio.create_subprocess_shell(line, cwd=tmp_path, env=env, stdout=PIPE, stderr=PIPE)
        printed, complained = await asyncio.wait_for(program.communicate(), PATIENCE_S)
    finally:
        model.kill()
        await model.wait()
    assert program.returncode == 0, complained.decode()
    assert printed.decode() == shown("printed")


@needs_sdk
async def test_without_a_key_it_says_so_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "evening.py").write_text(shown("example"), encoding="utf-8")
    program = await asyncio.create_subprocess_exec(
        sys.executable, "evening.py", cwd=tmp_path, env=environment(tmp_path), stdout=PIPE, stderr=PIPE
    )
    printed, complained = await asyncio.wait_for(program.communicate(), PATIENCE_S)
    assert (program.returncode, printed, complained.decode().splitlines()) == (1, b"", [NO_KEY])
