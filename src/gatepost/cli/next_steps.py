"""The answer to `gatepost` alone: how things are, in a line, and the few commands that help next."""

from msgspec import Struct

from gatepost.cli import output
from gatepost.cli.commands.status import StatusReport, StoreNumbers, StoreTrouble, read_status
from gatepost.core.home import Home
from gatepost.serve.control.daemon_status import Lack

MOST_STEPS = 5
ALL = "gatepost --help"


class CommandHint(Struct, frozen=True):
    """A command, and what it is good for."""

    command: str
    why: str


def print_next_steps(home: Home) -> None:
    status = read_status(home)
    output.print_line(render_standing(status))
    steps = [*choose_steps(status)[:MOST_STEPS], CommandHint(ALL, "every command")]
    width = max(len(each.command) for each in steps)
    for each in steps:
        output.print_line(f"  {each.command:<{width}}  ", output.colored(each.why, "dim"))


def render_standing(status: StatusReport) -> output.Piece:
    if status.running and not status.answers:
        return output.colored(f"gatepost runs as pid {status.pid} but does not answer: {status.trouble}", "fail")
    if status.running:
        return output.colored(f"gatepost is up at http://{status.listen}/", "ok")
    if status.store is None:
        return f"nothing is in {status.home} yet"
    return output.colored(f"gatepost is down ({status.home})", "warn")


def choose_steps(status: StatusReport) -> list[CommandHint]:
    """Return what to do, the most urgent first."""
    if status.running and not status.answers:
        return [
            CommandHint("gatepost logs", "what it does instead"),
            CommandHint("gatepost doctor", "what is wrong"),
        ]
    steps = []
    if isinstance(status.store, StoreTrouble):
        steps.append(CommandHint("gatepost doctor", f"the store cannot be read: {status.store.trouble}"))
    elif not status.running:
        new = status.store is None
        steps.append(CommandHint("gatepost up", "start it: no key, no account" if new else "start it"))
        if not new:
            steps.append(CommandHint("gatepost logs", "why it ended"))
    if isinstance(status.store, StoreNumbers):
        steps += _list_waiting(status.store)
    if status.running:
        steps += _list_usual(status)
    return steps


def _list_waiting(store: StoreNumbers) -> list[CommandHint]:
    """Return the commands for what waits for a person."""
    steps = []
    if store.panic is not None:
        steps.append(CommandHint("gatepost panic --off", "everything is stopped; this lets it go on"))
    if store.requests.waiting:
        steps.append(CommandHint("gatepost permit ls", f"{store.requests.waiting} to be answered"))
    if store.newcomers:
        steps.append(CommandHint("gatepost onboarding list", f"{store.newcomers} to be let in"))
    if store.tasks.broken:
        steps.append(CommandHint("gatepost task show", f"paused after failures: {', '.join(store.tasks.broken)}"))
    return steps


def _list_usual(status: StatusReport) -> list[CommandHint]:
    """Return what helps on a gateway that runs."""
    steps = []
    if status.store_trouble or status.sandbox.kind is None or not all(each.is_well for each in status.channel_health):
        steps.append(CommandHint("gatepost doctor", "something is not well; it names the way out"))
    if Lack.AGENT in status.lacks:
        steps.append(CommandHint("gatepost connect", "the demo answers; this connects a real agent"))
    elif Lack.CHANNEL in status.lacks:
        steps.append(CommandHint("gatepost channel add", "so that people can write from where they are"))
    return [
        *steps,
        CommandHint("gatepost login", "open the page"),
        CommandHint("gatepost chat", "talk from this terminal"),
    ]
