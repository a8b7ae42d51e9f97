"""`gatepost channel emulate KIND`: a platform on this machine, with a web page to write on, to try a channel without an
account. The command stands in the group of `commands/channels.py`.

The emulators are in `gatepost_testing`, a distribution of its own: they are found by name, as plug-ins are.
"""

import asyncio
import errno
import importlib
import importlib.util
import shlex
import signal
from contextlib import suppress
from typing import Any

import click

from gatepost.channels.contract import CHANNELS
from gatepost.cli import output
from gatepost.cli.operation_command import NumberRange, call_operation
from gatepost.cli.operation_runner import home_of
from gatepost.core.errors import Invalid, SetupError
from gatepost.core.home import Home
from gatepost.core.process import home_lock
from gatepost.flow import channel_specs
from gatepost.serve.control.arguments.channels import AddChannelArgs, RemoveChannelArgs

TRY_IT = "gatepost_testing.emulation"
MISSING = "the emulators are not installed: pip install gatepost-testing (a clone's `make setup` brings them along)"
PORT = NumberRange(0, 65535)


@click.command()
@click.argument("kind", required=False, default="")
@click.option(
    "--port", type=PORT, default=0, show_default="a free one", help="The port of the emulated platform, on 127.0.0.1."
)
@click.option(
    "--page-port", type=PORT, default=0, show_default="a free one", help="The port of the web page, on 127.0.0.1."
)
@click.option("--name", default="", metavar="INSTANCE", help="The channel's name here (default: the kind).")
@click.option("--add", is_flag=True, help="Add the channel, too; it is removed again at the end.")
@click.pass_obj
def emulate(home: str | None, kind: str, port: int, page_port: int, name: str, add: bool) -> int:
    """Play a platform on this machine, with a web page to write on as people do there.

    It prints the page's address and how to add the channel. It ends with Ctrl-C, and forgets everything. Without KIND
    it lists what can be played.
    """
    place = home_of(home)
    channel_specs.find_kinds(place)
    emulation = _load_emulation()
    if not kind:
        for each in emulation.list_working():
            output.print_line(each)
        return 0
    platform = emulation.make_platform(kind)
    if add and kind not in CHANNELS:
        raise Invalid("--add", f"there is no channel {kind!r} here; docs/extend/channel.md has its file, for plugins/")
    _start(platform, port)
    try:
        play = EmulatedChannel(place, platform, name or kind)
        with suppress(KeyboardInterrupt):
            asyncio.run(play.serve(page_port, add=add))
    finally:
        platform.stop()
    return 0


def _start(platform: Any, port: int) -> None:
    try:
        platform.start(port)
    except OSError as error:
        why = "is in use" if error.errno == errno.EADDRINUSE else f"cannot be listened on ({error.strerror})"
        raise Invalid("--port", f"127.0.0.1:{port} {why}") from None


def _load_emulation() -> Any:
    if importlib.util.find_spec(TRY_IT.partition(".")[0]) is None:
        raise SetupError(MISSING)
    return importlib.import_module(TRY_IT)


class EmulatedChannel:
    """A platform that is played, and the channel to it."""

    def __init__(self, home: Home, platform: Any, instance: str) -> None:
        self._home, self._platform, self._instance = home, platform, instance
        platform.hook_url = _find_hook_url(home, instance)
        self._settings, self._secrets = platform.get_settings(), platform.get_secrets()
        command = render_command(platform.kind, instance, self._settings, self._secrets)
        self._lines = ["Add the channel with:", command, *render_pairing(platform.has_direct)]

    async def serve(self, port: int, *, add: bool) -> None:
        page: Any = importlib.import_module(f"{TRY_IT}.page")
        serving = asyncio.current_task()
        assert serving is not None
        for each in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(each, serving.cancel)
        if add:
            await asyncio.to_thread(self._add)
        try:
            await page.serve_page(page.EmulationPage(self._platform, self._lines), port, self._print_addresses)
        except asyncio.CancelledError:
            output.print_line("ended")
        finally:
            if add:
                await asyncio.to_thread(self._remove)

    def _add(self) -> None:
        settings = {key: _render(value) for key, value in self._settings.items()}
        args = {"kind": self._platform.kind, "instance": self._instance, "settings": settings}
        made = call_operation(self._home, AddChannelArgs, {**args, "secrets": self._secrets})
        added = f"it is added as {self._instance}: {made.bot}"
        self._lines = [added, *render_pairing(self._platform.has_direct)]

    def _remove(self) -> None:
        call_operation(self._home, RemoveChannelArgs, {"instance": self._instance})

    def _print_addresses(self, address: str) -> None:
        output.print_line(f"{self._platform.kind} is played at {self._platform.url}")
        output.print_line(f"write as people do there: {address}")
        for line in self._lines:
            output.print_line(line)
        output.print_line("Ctrl-C ends it.", flush=True)


def render_pairing(has_direct: bool) -> list[str]:
    """How somebody becomes known there: strangers get no answer."""
    return [
        f"To be known there: `gatepost pair` prints a code; send it as ann in {'direct:ann' if has_direct else 'team'}."
    ]


def render_command(kind: str, instance: str, settings: dict[str, Any], secrets: dict[str, str]) -> str:
    """How the channel is added, as somebody can paste it into a shell."""
    words = ["gatepost", "channel", "add", kind, *(["--name", instance] if instance != kind else [])]
    for key, value in settings.items():
        words += ["--set", f"{key}={_render(value)}"]
    for key in secrets:
        words += ["--secret", f"{key}=-"]
    command = shlex.join(words)
    if not secrets:
        return command
    values = " ".join(shlex.quote(value) for value in secrets.values())
    return f"printf '%s\\n' {values} | {command}"


def _render(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)


def _find_hook_url(home: Home, instance: str) -> str:
    """Return where the gateway that runs takes the events of this channel; '' if none runs."""
    holder = home_lock.find_holder(home)
    listen = str(holder.listen) if holder is not None and holder.listen else ""
    return f"http://{listen}/channels/{instance}" if listen and not listen.startswith("unix:") else ""
