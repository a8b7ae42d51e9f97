"""Secrets on a real gateway: set while it runs, rotated under it, and nowhere to be found afterwards."""

import base64
import json
import stat
from pathlib import Path

from gatepost_testing import fork_server
from gatepost_testing.daemon import DaemonProcess

PIPED, TYPED = "sk-ant-xyzzy-piped-0123", "sk-plugh-typed-4567"


def done(daemon: DaemonProcess, *args: str, stdin: str = "") -> str:
    ran = fork_server.run(args, daemon.env, said=stdin)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout + ran.stderr


def test_secrets_are_set_and_rotated_with_the_gateway_up_and_down_and_lie_nowhere_in_the_clear(tmp_path: Path) -> None:
    daemon = DaemonProcess(tmp_path / "h", log_level="debug", sandbox_kind="process", sessions_provider="scripted")
    said = done(daemon, "secret", "set", "ANTHROPIC_API_KEY", stdin=PIPED + "\n")  # down
    with daemon:
        said += done(daemon, "secret", "set", "OPENAI_API_KEY", TYPED, "--folder", "home")
        said += done(daemon, "secret", "rotate")
        said += done(daemon, "chat", "-m", "hello", "--wait")
        said += done(daemon, "secret", "list", "--json")
        said += done(daemon, "trace", "1", "--json") + done(daemon, "audit", "list", "--json")
    keys = {each["name"]: each["key_id"] for each in json.loads(done(daemon, "secret", "list", "--json"))}

    ring = json.loads((daemon.home / "keyring.json").read_text())
    assert keys == dict.fromkeys(("ANTHROPIC_API_KEY", "OPENAI_API_KEY"), ring["current"])
    assert list(ring["keys"]) == [ring["current"]]
    assert stat.S_IMODE((daemon.home / "keyring.json").stat().st_mode) == 0o600
    said += daemon.stderr()
    for value in (PIPED, TYPED):
        for form in (value, base64.b64encode(value.encode()).decode().rstrip("=")):
            assert form not in said
            held = [
                str(path) for path in daemon.home.rglob("*") if path.is_file() and form.encode() in path.read_bytes()
            ]
            assert held == []
    [key] = ring["keys"].values()
    holders = [path.name for path in daemon.home.rglob("*") if path.is_file() and key.encode() in path.read_bytes()]
    assert holders == ["keyring.json"]
    assert key not in said
