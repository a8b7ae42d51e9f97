import platform
import sys
from pathlib import Path

from gatepost.core.npm_programs import find_commands, find_native, find_package, find_script

MACHINE = {"x86_64": "x64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
ENDING = f"{'darwin' if sys.platform == 'darwin' else 'linux'}-{MACHINE}"


def make(path: Path, content: bytes = b"\x7fELF") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    path.chmod(0o755)
    return path


def test_the_executable_of_a_vendor_folder_is_found(tmp_path: Path) -> None:
    program = make(tmp_path / f"@openai/codex-{ENDING}/vendor/some-triple/bin/codex")
    make(tmp_path / "@openai/codex/bin/codex.js", b"#!/usr/bin/env node")

    assert find_native(tmp_path, "@openai/codex", "codex") == program


def test_the_plain_build_comes_before_the_others(tmp_path: Path) -> None:
    make(tmp_path / f"opencode-{ENDING}-musl/bin/opencode")
    program = make(tmp_path / f"opencode-{ENDING}/bin/opencode")

    assert find_native(tmp_path, "opencode-ai", "opencode") == program


def test_a_script_is_not_native(tmp_path: Path) -> None:
    make(tmp_path / f"opencode-{ENDING}/bin/opencode", b"#!/usr/bin/env node")

    assert find_native(tmp_path, "opencode-ai", "opencode") is None


def test_a_package_of_another_platform_is_none_of_ours(tmp_path: Path) -> None:
    make(tmp_path / "opencode-plan9-mips/bin/opencode")

    assert find_native(tmp_path, "opencode-ai", "opencode") is None


def make_script(modules: Path) -> Path:
    script = make(modules / "@google/gemini-cli/bundle/gemini.js", b"#!/usr/bin/env node")
    (modules / "@google/gemini-cli/package.json").write_text('{"bin": {"gemini": "bundle/gemini.js"}}')
    (modules / ".bin").mkdir()
    (modules / ".bin/gemini").symlink_to(script)
    return script


def test_a_node_program_is_found_with_the_package_that_it_needs(tmp_path: Path) -> None:
    modules = tmp_path / "node_modules"
    script = make_script(modules)

    assert find_script(modules, "gemini") == script and find_script(modules, "codex") is None
    assert find_package(script) == modules / "@google/gemini-cli"
    assert find_commands(modules / "@google/gemini-cli") == modules / ".bin"


def test_neither_a_native_program_nor_a_script_of_ones_own_has_a_package(tmp_path: Path) -> None:
    native = make(tmp_path / "node_modules/opencode/bin/opencode")
    (tmp_path / "node_modules/opencode/package.json").write_text("{}")
    own = make(tmp_path / "bin/tool", b"#!/bin/sh")
    (tmp_path / "package.json").write_text("{}")

    assert find_package(native) is None and find_package(own) is None and find_package(tmp_path / "no") is None
