"""`gatepost up` and `down`: start the gateway, and end it. They import little: a second `up` is refused at once.
`gatepost service`: have the machine start it."""

import gc
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable

import click

from gatepost.cli import output
from gatepost.cli.installation.service_units import (
    USUAL,
    ServicePlan,
    check_name,
    list_steps,
    remove_service,
    render_steps,
    render_unit,
    run_steps,
    write_unit,
)
from gatepost.core import home as homes
from gatepost.core.errors import GatepostError, Invalid, SetupError, Unavailable
from gatepost.core.home import Home
from gatepost.core.process import home_lock
from gatepost.core.process.home_lock import LockHolder

WITHOUT_SERVICE = "Without a service, `gatepost up` serves in the foreground, under any supervisor"


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


@click.group()
def service_command() -> None:
    """The gateway as a service of this machine: started with it, and again if it fails.

    \b
        gatepost service install              # for you, by systemd or launchd
        sudo gatepost service install --system --as gatepost
        gatepost service status
        gatepost service logs

    With systemd it says when it is ready, and is started anew if it hangs. launchd is written by its documents, and was
    never tried.
    """


def _with_service(command: Callable[..., object]) -> Callable[..., object]:
    for option in (
        click.option("--name", default=USUAL, show_default=True, help="For several on one machine."),
        click.option("--system", is_flag=True, help="Of the machine, not of one user. As root."),
        click.pass_obj,
    ):
        command = option(command)
    return command


@service_command.command("install")
@_with_service
@click.option("--as", "user", metavar="USER", default="", help="With --system: the user whose gateway it is.")
@click.option("--print", "only_print", is_flag=True, help="Print the unit and the commands, and change nothing.")
def install_service(home: str | None, system: bool, name: str, user: str, only_print: bool) -> int:
    """Write the unit, switch it on and start it. Its PATH is that of this command."""
    plan = _make_plan(home, system, name, user)
    unit, steps = render_unit(plan), list_steps(plan, "install")
    if only_print:
        output.print_line(f"# {plan.file}\n{unit}")
        output.print_line(render_steps(steps))
        return 0
    if home_lock.find_holder(Home(plan.home)) is not None and not plan.file.exists():
        raise SetupError(f"a gateway runs on {plan.home} already; `gatepost down` first")
    is_new = not plan.file.exists()
    write_unit(plan, unit)
    try:
        run_steps(steps[:1])
    except SetupError as error:
        if is_new:
            plan.file.unlink()
        raise SetupError(f"{error}. Nothing was installed. {WITHOUT_SERVICE}") from None
    run_steps(steps[1:])
    output.print_line(f"{plan.unit} runs, and starts with {'the machine' if system else 'you'}: {plan.file}")
    output.print_line("`gatepost login` prints an address that signs you in")
    return 0


@service_command.command("uninstall")
@_with_service
def uninstall_service(home: str | None, system: bool, name: str) -> int:
    """Stop it, and remove its unit. The home with all that is in it stays."""
    plan = _find_installed(home, system, name)
    remove_service(plan)
    output.print_line(f"{plan.unit} is gone. {plan.home} stays: everything that was said and kept is there")
    return 0


@service_command.command("restart")
@_with_service
def restart_service(home: str | None, system: bool, name: str) -> int:
    """Stop it in good order, and start it again."""
    run_steps(list_steps(_find_installed(home, system, name), "restart"))
    return 0


@service_command.command("status")
@_with_service
def show_service(home: str | None, system: bool, name: str) -> int:
    """Show how the service manager sees it. `gatepost status` asks the gateway itself."""
    return _show_steps(list_steps(_find_installed(home, system, name), "status"))


@service_command.command("logs")
@_with_service
def show_service_logs(home: str | None, system: bool, name: str) -> int:
    """Its last lines in the journal. `gatepost logs` shows the gateway's own log."""
    return _show_steps(list_steps(_find_installed(home, system, name), "logs"))


def _find_installed(home: str | None, system: bool, name: str) -> ServicePlan:
    plan = _make_plan(home, system, name)
    if not plan.file.exists():
        raise SetupError(
            f"{plan.file} does not exist: no service of that name was installed; `gatepost service install` does it"
        )
    return plan


def _make_plan(home: str | None, system: bool, name: str, user: str = "") -> ServicePlan:
    launchd = sys.platform == "darwin"
    if system and launchd:
        raise Invalid("system", "on macOS a service is of one user; leave it out")
    if user and not system:
        raise Invalid("as", "goes with --system: without it, the service is yours")
    if system and os.geteuid() != 0:
        raise SetupError("a service of the machine is root's to change: use sudo, or leave out --system")
    place = homes.find(home).path.absolute()
    path = os.environ.get("PATH", os.defpath)
    return ServicePlan(name=check_name(name), home=place, system=system, user=user, path=path, launchd=launchd)


def _show_steps(steps: list[list[str]]) -> int:
    for each in steps:
        try:
            code = subprocess.run(each, check=False).returncode
        except FileNotFoundError:
            raise SetupError(f"{each[0]} is not here: this machine has no such service manager") from None
        if code:
            return 1
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
