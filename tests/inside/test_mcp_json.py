"""A group's own servers: what of the file that the agent writes is used, and what is not."""

import json
import tomllib
from pathlib import Path

import pytest

from gatepost.inside.mcp_json import FILE, McpServerConfig, own_servers
from gatepost.inside.providers.codex.protocol import render_config
from gatepost.inside.providers.opencode.protocol import APIS
from gatepost.inside.providers.opencode.protocol import render_config as render_opencode

NOTES = {"command": "notes", "args": ["--all"], "env": {"WHERE": "/tmp"}}


def write(folder: Path, **servers: object) -> Path:
    (folder / FILE).write_text(json.dumps({"mcpServers": servers}))
    return folder


def test_none_are_used_unless_the_group_says_so(tmp_path: Path) -> None:
    write(tmp_path, notes=NOTES)

    assert own_servers(tmp_path, False) == {}
    assert own_servers(tmp_path, True) == {"notes": McpServerConfig("notes", ["--all"], {"WHERE": "/tmp"})}


@pytest.mark.parametrize("name", ["gatepost", "Gatepost", "gatepost__x", "gatepost-2", "a b", "", "x" * 65, 'a"]\n[b'])
def test_no_name_stands_for_the_gateways_own_server(tmp_path: Path, name: str) -> None:
    assert own_servers(write(tmp_path, **{name: NOTES, "notes": NOTES}), True).keys() == {"notes"}


@pytest.mark.parametrize(
    "entry", [{}, {"url": "https://x"}, {"command": 3}, [], {"command": "a", "env": {'X"]\n': "y"}}, "x"]
)
def test_what_cannot_be_used_is_left_out_and_said(
    tmp_path: Path, entry: object, capsys: pytest.CaptureFixture[str]
) -> None:
    assert own_servers(write(tmp_path, odd=entry, notes=NOTES), True).keys() == {"notes"}
    assert ".mcp.json: the server 'odd' is left out" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["", "[]", "{", '{"mcpServers": 3}', "[" * 100_000])
def test_a_file_that_is_none_is_none(tmp_path: Path, text: str) -> None:
    assert own_servers(tmp_path, True) == {}
    (tmp_path / FILE).write_text(text)
    assert own_servers(tmp_path, True) == {}


def test_codex_and_opencode_are_told_of_them_beside_ours() -> None:
    own = {"notes": McpServerConfig("notes", ["--all"], {"WHERE": "/tmp"})}

    codex = tomllib.loads(render_config(endpoint="http://x", command=["b"], folder="/w", retries=1, own=own))
    opencode = render_opencode(
        model="m", api=APIS["chat"], endpoint="e", key="k", command=["b"], context=1, max_tokens=1, own=own
    )

    assert codex["mcp_servers"]["notes"] == NOTES
    assert codex["mcp_servers"]["gatepost"]["command"] == "b"
    servers = opencode["mcp"]
    assert isinstance(servers, dict)
    assert servers["notes"] == {"type": "local", "command": ["notes", "--all"], "environment": {"WHERE": "/tmp"}}
    assert servers["gatepost"]["command"] == ["b"]
