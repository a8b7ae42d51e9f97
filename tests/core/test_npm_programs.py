import platform
import sys
from pathlib import Path

from gatepost.core.npm_programs import find_native

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
