"""The formats of MCP clients, as the providers declare them."""

from pathlib import Path

import pytest

from gatepost.core.home import Home
from gatepost.flow.sessions.sandbox.provider_specs import list_own_providers, load_spec
from gatepost.jsonrpc.mcp_clients import configuration, list_clients


def test_every_client_that_a_provider_declares_is_known_and_no_other_but_cursor(tmp_path: Path) -> None:
    specs = [load_spec(Home(tmp_path), name) for name in list_own_providers()]
    declared = {spec.name: spec.mcp_client for spec in specs if spec.mcp_client is not None}

    assert {"claude", "codex", "gemini", "opencode"} <= declared.keys()
    assert {name: each for name, each in list_clients().items() if name != "cursor"} == declared


def test_a_client_that_nobody_declares_is_said_with_those_that_are_known() -> None:
    with pytest.raises(ValueError, match="only for claude, codex, cursor"):
        configuration("parrot", "shop", ["python"])
