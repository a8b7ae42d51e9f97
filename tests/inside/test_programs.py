"""Programs of others, as a provider finds them inside."""

from pathlib import Path

import pytest

from gatepost.inside import coding_agent
from gatepost.inside.providers.contract import Misconfigured


def program(path: Path, mode: int = 0o755) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(mode)
    return str(path)


def test_what_the_host_mounted_comes_before_what_is_on_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coding_agent, "PROGRAMS", str(tmp_path / "mounted"))
    monkeypatch.setenv("PATH", str(tmp_path / "usr"))
    on_path = program(tmp_path / "usr/bird")
    assert coding_agent.find_program("bird") == on_path

    mounted = program(tmp_path / "mounted/bird")
    assert coding_agent.find_program("bird") == mounted


def test_without_it_the_way_out_is_named() -> None:
    with pytest.raises(Misconfigured, match="the program unheard-of is not here: gatepost connect unheard-of"):
        coding_agent.find_program("unheard-of")
