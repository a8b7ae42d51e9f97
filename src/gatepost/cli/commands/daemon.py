"""`gatepost up` and `down`: start the gateway, and end it. They import little: a second `up` is refused at once."""

import gc
import os
import signal
import time

import click

from gatepost.cli import output
from gatepost.core import home as homes
from gatepost.core.errors import GatepostError, SetupError, Unavailable
from gatepost.core.home import Home
from gatepost.core.process import home_lock
from gatepost.core.process.home_lock import LockHolder


@click.command()
@click.option("--listen", metavar="ADDRESS", help="The web address: host:port, :port, port, [::1]:port, unix:PATH.")
@click.option("--log-format", type=click.Choice(["auto", "json", "pretty"]), help="How stderr is written.")
@click.option("--unsafe", is_flag=True, help="Accept a PostgreSQL server with fsync=off. For tests.")
@click.option("--new-store", is_flag=True, help="Begin with an empty store in a home that has lost its own.")
@click.pass_obj
def up_command(home: str | None, listen: str | None, log_format: str | None, unsafe: bool, new_store: bool) -> int:
    """Start the gateway and serve until a signal ends it.

    The first SIGINT or SIGTERM stops it in order, within 10 seconds; a second one stops it now.
    """
    place = homes.find(home)
    place.check_length()
    place.prepare()
    chosen = {"listen": listen, "log.format": log_format, "store.unsafe": unsafe or None}
    with home_lock.acquire(place, role=home_lock.DAEMON) as held:
        gc.disable()  # until all is imported
        try:
            from gatepost import daemon  # heavy: who comes second is told so before it

            if new_store:
                daemon.make_new_store(place)
            return daemon.run(place, {name: value for name, value in chosen.items() if value is not None}, held)
        finally:
            gc.enable()


@click.command()
@click.option("--timeout", type=float, default=15.0, show_default=True, help="Seconds to wait for it to be gone.")
@click.option("--drain", is_flag=True, help="Begin nothing new, and let turns end first.")
@click.option(
    "--within",
    type=click.FloatRange(0, 3600),
    default=30.0,
    show_default=True,
    help="With --drain: seconds in which turns may end. Those that do not are handed over.",
)
@click.pass_obj
def down_command(home: str | None, timeout: float, drain: bool, within: float) -> int:
    """End the running gateway and wait until it is gone. Exit 0 also if none was running.

    The work of its agents is continued: by other gateways on the same store at once, else by the next start.
    """
    place = homes.find(home)
    holder = home_lock.find_holder(place)
    if holder is None:
        output.print_line(f"gatepost is not running in {place.path}")
        return 0
    _request_shutdown(place, holder, {"drain_s": within} if drain else {})
    timeout += within if drain else 0
    deadline = time.monotonic() + timeout
    while home_lock.find_holder(place) is not None:
        if time.monotonic() > deadline:
            raise Unavailable(f"the end of pid {holder.pid}", f"it still runs after {timeout:g} s; `kill -9` ends it")
        time.sleep(0.05)
    output.print_line(f"gatepost (pid {holder.pid}) is down" if holder.pid else "gatepost is down")
    return 0


def _request_shutdown(home: Home, holder: LockHolder, how: dict[str, float]) -> None:
    """Over its socket; by a signal only to a process that is for certain this home's gateway."""
    from gatepost.cli.operation_runner import control_of

    try:
        control_of(home).post("/v1/shutdown", how, timeout=5)
        return
    except GatepostError as error:
        if not holder.is_daemon:
            raise SetupError(_render_unknown_holder(home, holder, error)) from None
    try:
        os.kill(holder.pid, signal.SIGTERM)
    except ProcessLookupError:
        return  # gone meanwhile
    except PermissionError:
        raise SetupError(f"pid {holder.pid} belongs to another user; run this as that user") from None


def _render_unknown_holder(home: Home, holder: LockHolder, error: GatepostError) -> str:
    if not holder.pid:
        return f"the gateway in {home.path} does not answer, and its pid is not known: {error}"
    return (
        f"pid {holder.pid} holds the lock of {home.path}, but is no gateway of this home as far as can be told"
        f" ({error}); it is left alone. If it is a command of gatepost, wait for its end; else end it by hand:"
        f" kill {holder.pid}"
    )
