"""`gatepost channel emulate KIND`: a platform on this machine, with a web page to write on, to try a channel without an
account. The command stands in the group of `commands/channel.py`.

The emulators are in `gatepost.testing`, which is above the commands: they are found by name, as plug-ins are.
"""

import asyncio
import importlib
import shlex
import signal
from contextlib import suppress
from typing import Any

import click

from gatepost.cli import output
from gatepost.cli.operation_runner import home_of
from gatepost.core import home_lock, registry
from gatepost.core.home import Home

TRY_IT = "gatepost.testing.emulation"


@click.command()
@click.argument("kind", required=False, default="")
@click.option("--port", default=0, show_default="a free one", help="Of the emulated platform, on 127.0.0.1.")
@click.option("--page-port", default=0, show_default="a free one", help="Of the web page, on 127.0.0.1.")
@click.option("--name", default="", metavar="INSTANCE", help="What the channel is called here (default: the kind).")
@click.pass_obj
def emulate(home: str | None, kind: str, port: int, page_port: int, name: str) -> int:
    """Play a platform on this machine, with a web page to write on as people do there.

    It prints the page's address and how to add the channel. It ends with Ctrl-C, and forgets everything. Without KIND
    it lists what can be played.
    """
    place = home_of(home)
    _load_kinds(place)
    emulation: Any = importlib.import_module(TRY_IT)
    if not kind:
        for each in emulation.list_emulators():
            output.print_line(each)
        return 0
    platform = emulation.make_platform(kind)
    instance = name or kind
    platform.start(port)
    try:
        platform.hook_url = _find_hook_url(place, instance)
        lines = render_lines(kind, instance, platform.get_settings(), platform.get_secrets())
        with suppress(KeyboardInterrupt):
            asyncio.run(_serve(platform, lines, page_port))
    finally:
        platform.stop()
    return 0


def render_lines(kind: str, instance: str, settings: dict[str, Any], secrets: dict[str, str]) -> list[str]:
    """How the channel is added, as somebody can paste it into a shell."""
    words = ["gatepost", "channel", "add", kind, *(["--name", instance] if instance != kind else [])]
    for key, value in settings.items():
        words += ["--set", f"{key}={_render(value)}"]
    for key in secrets:
        words += ["--secret", f"{key}=-"]
    command = shlex.join(words)
    if not secrets:
        return [command]
    values = " ".join(shlex.quote(value) for value in secrets.values())
    return [f"printf '%s\\n' {values} | {command}"]


def _render(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)


def _load_kinds(home: Home) -> None:
    registry.load_package("gatepost.channels")
    registry.load_folder(home.path / "plugins" / "channels", "channels")


def _find_hook_url(home: Home, instance: str) -> str:
    """Where the gateway that runs takes the events of this channel; '' if none runs."""
    holder = home_lock.find_holder(home)
    listen = str(holder.listen) if holder is not None and holder.listen else ""
    return f"http://{listen}/channels/{instance}" if listen and not listen.startswith("unix:") else ""


async def _serve(platform: Any, lines: list[str], port: int) -> None:
    page: Any = importlib.import_module(f"{TRY_IT}.page")
    serving = asyncio.current_task()
    assert serving is not None
    loop = asyncio.get_running_loop()
    for each in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(each, serving.cancel)

    def print_addresses(address: str) -> None:
        output.print_line(f"{platform.kind} is played at {platform.url}")
        output.print_line(f"write as people do there: {address}")
        output.print_line("add the channel, in another terminal:")
        for line in lines:
            output.print_line(f"  {line}")
        output.print_line("Ctrl-C ends it.", flush=True)

    with suppress(asyncio.CancelledError):
        await page.serve_page(page.EmulationPage(platform, lines), port, print_addresses)
