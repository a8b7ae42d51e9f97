"""What is run to install an agent's parts, and what it gets to see."""

import os
from pathlib import Path

import pytest

from gatepost.core.errors import SetupError
from gatepost.core.home import Home
from gatepost.serve.control.agent_installer import clean_environment, install_program
from gatepost.serve.control.connectable_agents import get_agent


def test_a_package_manager_gets_no_key_of_ours() -> None:
    kept = {"PATH": "/bin", "HOME": "/h", "https_proxy": "http://p", "npm_config_registry": "x", "PIP_INDEX_URL": "y"}
    ours = {"OPENAI_API_KEY": "sk", "GATEPOST_KEYRING": "{}", "AWS_SECRET_ACCESS_KEY": "z", "SSH_AUTH_SOCK": "/s"}

    assert clean_environment(kept | ours) == kept


def test_npm_is_run_without_the_packages_scripts_and_without_our_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bin_folder, seen = tmp_path / "bin", tmp_path / "seen"
    bin_folder.mkdir()
    (bin_folder / "npm").write_text(f'#!/bin/sh\n/usr/bin/env > {seen}\necho "$@" >> {seen}\n')
    (bin_folder / "npm").chmod(0o755)
    for name in tuple(os.environ):
        if name.startswith("GATEPOST"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("PATH", str(bin_folder))
    monkeypatch.setenv("OPENAI_API_KEY", "sk-REALKEY")
    monkeypatch.setenv("GATEPOST_KEYRING", "a-keyring")

    home = Home(tmp_path / "home")
    with pytest.raises(SetupError, match="it has no codex for this machine"):
        install_program(home, get_agent(home, "codex"), lambda line: None, allowed=True)
    said = seen.read_text()
    assert "--ignore-scripts" in said and f"PATH={bin_folder}" in said
    assert "REALKEY" not in said and "a-keyring" not in said
