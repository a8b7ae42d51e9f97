"""A real daemon whose only channel speaks to an emulated platform: what the flows of channels share."""

import re
import shutil
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gatepost.channels.contract import CHANNELS, ChannelKind
from gatepost.core import registry
from gatepost_testing.daemon import DaemonProcess
from gatepost_testing.platforms.base import EmulatedPlatform, ShownMessage
from gatepost_testing.provider import ScriptBuilder
from gatepost_testing.waiting import block_until

SETTINGS = {
    "sessions_provider": "scripted",
    "sandbox_least_free_mb": "0",
    "sessions_retry_s": "0.05",
    "sessions_look_s": "0.2",
    "delivery_retry_base_s": "0.05",
    "delivery_look_s": "0.2",
    "delivery_timeout_s": "4",
}


class ChannelDesk:
    """`ann` is the owner, whose direct chat with the bot is `direct:ann`; everybody may write in `team`."""

    def __init__(self, folder: Path, platform: EmulatedPlatform, script: ScriptBuilder, **settings: str) -> None:
        registry.load_package("gatepost.channels")
        self.platform, self.instance = platform, platform.kind
        self.kind: ChannelKind = CHANNELS[platform.kind]
        self._port = find_port()
        self.daemon = DaemonProcess(folder / "home", **{**SETTINGS, "listen": f"127.0.0.1:{self._port}", **settings})
        self._write_settings()
        self._prepare(script)

    def _write_settings(self) -> None:
        self.daemon.home.mkdir(parents=True, exist_ok=True)
        self.platform.hook_url = f"http://127.0.0.1:{self._port}/channels/{self.instance}"
        lines = [f"[channels.{self.instance}]", f'kind = "{self.kind.name}"']
        lines += [f"{name} = {_render(value)}" for name, value in self.platform.get_settings().items()]
        (self.daemon.home / "gatepost.toml").write_text("\n".join(lines) + "\n", encoding="utf-8")
        if self.platform.folder is not None:  # what the bot's library kept when its account was made, such as its keys
            kept = self.daemon.home / "channels" / self.instance
            shutil.copytree(self.platform.folder, kept)
            kept.parent.chmod(0o700)
            kept.chmod(0o700)

    def _prepare(self, script: ScriptBuilder) -> None:
        for name, value in self.platform.get_secrets().items():
            self.run("secret", "set", f"CHANNEL_{self.instance}_{name}".upper().replace("-", "_"), value)
        ann = self.platform.get_sender("ann")
        self.run("user", "add", ann, "--name", "Ann")
        self.run("user", "role", ann, "owner")
        self.run("room", "policy", self.platform.get_address("team"), "public")
        self._script = script

    def start(self) -> "ChannelDesk":
        self.daemon.start()
        folder = self.daemon.home / "groups" / "home"
        self._script.write(folder).chmod(0o644)
        block_until(
            self._is_up, f"{self.instance} to be up"
        )  # what was said before a bot ever was there is not its own
        return self

    def _is_up(self) -> bool:
        return any(each["instance"] == self.instance and each["state"] == "up" for each in self._list_channels())

    def _list_channels(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.daemon.json("channel", "list")
        return found

    def __enter__(self) -> "ChannelDesk":
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.daemon.stop()

    def run(self, *args: str) -> str:
        done = self.daemon.gatepost(*args)
        assert done.returncode == 0, f"gatepost {' '.join(args)}: {done.stdout}{done.stderr}"
        return done.stdout

    def wait_for(self, wanted: Callable[[ShownMessage], bool], room: str = "") -> ShownMessage:
        """The newest message of the bot of which this holds, once there is one."""
        found: list[ShownMessage] = []

        def holds() -> bool:
            found[:] = [each for each in self.platform.list_shown(room) if wanted(each)]
            return bool(found)

        if not self.platform.wait_for(holds):
            raise AssertionError(
                f"waited in vain; the bot said: {self.platform.texts()}; {self.daemon.stderr()[-1500:]}"
            )
        return found[-1]

    def wait_for_text(self, text: str, room: str = "") -> ShownMessage:
        return self.wait_for(lambda each: text in each.text, room)

    def answer(self, room: str, card: ShownMessage, label: str, *, sender: str = "ann") -> None:
        """Press the button, or send its number where the platform has none."""
        if card.buttons:
            self.platform.click(room, card.id, label, sender=sender)
            return
        found = re.search(rf"(\d+)\. {re.escape(label)}", card.text)
        assert found is not None, card.text
        self.platform.send(found[1], room=room, sender=sender, thread=card.thread, reply_to=card.id)

    def wait_until_settled(self) -> None:
        def is_settled() -> bool:
            return int(self.daemon.json("ledger", "check")["in_flight"]) == 0

        block_until(is_settled, "everything to be answered and delivered")


def _render(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return str(value)
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(_render(each) for each in value)}]"
    escaped = str(value).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def find_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
