"""The example of docs/embed.md, as it stands there: a program of its own, real Claude Code, the scripted model."""

import asyncio
import importlib.util
import os
import re
import sys
from pathlib import Path

import pytest

from gatepost.testing.models import ModelEndpoint

pytestmark = pytest.mark.slow  # real clients and processes, again and again

PAGE = Path(__file__).resolve().parents[2] / "docs" / "embed.md"
SCRIPT = {
    "turns": [
        {
            "when": "Plan my evening",
            "do": [
                {"call": "get_weather", "with": {"city": "Cologne"}},
                {"call": "book_table", "with": {"guests": [{"name": "Ann"}], "hour": 3}},
                {"call": "book_table", "with": {"guests": [{"name": "Ann"}, {"name": "Bo"}], "hour": 19}},
                {"say": "All set: {result}."},
            ],
        }
    ]
}


@pytest.mark.skipif(
    importlib.util.find_spec("claude_agent_sdk") is None,
    reason="claude-agent-sdk is not installed: pip install gatepost[claude]",
)
async def test_the_example_runs_as_it_is_shown(tmp_path: Path) -> None:
    code = re.findall(r"<!-- example.*?-->\n```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)[0]
    (tmp_path / "evening.py").write_text(code, encoding="utf-8")
    async with ModelEndpoint(SCRIPT) as endpoint:
        env = {
            **os.environ,
            "ANTHROPIC_BASE_URL": endpoint.anthropic,
            "ANTHROPIC_API_KEY": "none",
            "HOME": str(tmp_path),
            "CLAUDE_CONFIG_DIR": str(tmp_path / "claude"),
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        }
        pipe = asyncio.subprocess.PIPE
        program = await asyncio.create_subprocess_exec(
            sys.executable, "evening.py", cwd=tmp_path, env=env, stdout=pipe, stderr=pipe
        )
        printed, complained = await asyncio.wait_for(program.communicate(), 100)
    assert program.returncode == 0, complained.decode()
    assert printed.decode().splitlines() == ["All set: booked for 2 at 19.", "booked: ['Ann', 'Bo']"]
    assert endpoint.calls[-1].said("we are open from 17 to 22", "tool") == 1
    assert endpoint.calls[-1].said('"degrees":21', "tool") == 1
