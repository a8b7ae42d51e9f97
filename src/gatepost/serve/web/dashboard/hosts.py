"""The hosts that one agent may reach, and those that it was refused lately, each with the button that changes it."""

from collections.abc import Sequence

from msgspec import Struct

from gatepost.core.errors import Invalid
from gatepost.egress.rules import WEB_PORTS, check_target, may_be_offered, read_target
from gatepost.serve.control.arguments.connect import IsolationArgs
from gatepost.serve.control.arguments.secrets import EgressLogArgs, ListEgressRulesArgs
from gatepost.serve.web.dashboard.contract import PageRequest
from gatepost.serve.web.dashboard.tables import made, make_moment, make_table
from gatepost.serve.web.dashboard.view import (
    Action,
    Badge,
    Block,
    EmptyState,
    FormBlock,
    FormInput,
    InputKind,
    Note,
    TableBlock,
    Tone,
)
from gatepost.store.rights.egress import EgressAttempt, EgressRule

MOST_TRIES, MOST_REFUSED = 200, 20  # tries that are looked at, and hosts of them that are shown
NO_WALLS = "Nothing holds it on this machine: without walls it can reach every host, whatever is said here."
LET = "Let it reach this"


class RefusedHost(Struct, frozen=True, kw_only=True):
    """`host`: as a rule names it; '': no rule may be offered for it."""

    target: str
    host: str
    last_at: int
    times: int


async def list_host_blocks(request: PageRequest, folder: str) -> list[Block]:
    """Nothing for whoever may not see the rules."""
    if not await request.may("egress.list", "egress.log", scope=folder):
        return []
    rules = await request.ask(ListEgressRulesArgs(folder=folder))
    tried = await request.ask(EgressLogArgs(folder=folder, denied=True, limit=MOST_TRIES))
    writes = await request.may("egress.allow", scope=folder)
    everywhere = await request.may("egress.allow")
    return [
        *await list_wall_notes(request, folder),
        make_rules(rules, folder, writes=writes, everywhere=everywhere),
        *([make_host_form(folder)] if writes else []),
        *make_refused(list_refused(tried, rules, folder), folder, writes=writes, everywhere=everywhere),
    ]


async def list_wall_notes(request: PageRequest, folder: str = "") -> list[Block]:
    if not await request.may("sandbox.walls", scope=folder):
        return []
    walls = await request.ask(IsolationArgs(folder=folder))
    return [] if walls.isolated or not walls.kind else [Note(text=NO_WALLS, tone=Tone.WARN)]


def make_rules(rules: Sequence[EgressRule], folder: str, *, writes: bool, everywhere: bool) -> TableBlock:
    def list_actions(rule: EgressRule) -> tuple[Action, ...]:
        if not (writes if rule.folder == folder else everywhere):
            return ()
        return (Action(label="Remove", operation="egress.rm", args={"id": rule.id}, asks=True, tone=Tone.BAD),)

    fields = (
        made("host", "Host", render_host),
        made("allow", "Answer", lambda rule: Badge("yes", Tone.GOOD) if rule.allow else Badge("no", Tone.BAD)),
        made("folder", "For", lambda rule: _name_place(rule.folder, folder)),
    )
    none = EmptyState(text="No host is open to it. Its model is reached another way.")
    return make_table(rules, fields, none, actions=list_actions, title="Reaches")


def render_host(rule: EgressRule) -> str:
    name = "every host" if rule.host == "*" else rule.host
    return f"{name}:{rule.port}" if rule.port else name


def _name_place(place: str | None, folder: str) -> str:
    return "all agents" if place is None else "this agent" if place == folder else f"all in {place}"


def make_host_form(folder: str) -> FormBlock:
    host = FormInput(name="host", label="Another host", kind=InputKind.HOST, required=True, example="example.com")
    return FormBlock(label=LET, operation="egress.allow", args={"folder": folder}, inputs=[host], clears=True)


def list_refused(tried: Sequence[EgressAttempt], rules: Sequence[EgressRule], folder: str) -> list[RefusedHost]:
    """Return what it was refused, the latest first and each once, without what it may reach by now."""
    found = dict[str, RefusedHost]()
    for each in reversed(tried):
        if each.target in found or len(found) >= MOST_REFUSED:
            continue
        try:
            target = read_target(each.target)
        except Invalid:  # no host: the name of a model, or nothing that can be read
            continue
        verdict = check_target(rules, folder, target)
        if verdict.allowed:
            continue
        host = target.host if target.port in WEB_PORTS else str(target)
        offered = verdict.unsaid and may_be_offered(target)
        found[each.target] = RefusedHost(
            target=host, host=host if offered else "", last_at=each.last_at, times=each.times
        )
    return list(found.values())


def make_refused(refused: Sequence[RefusedHost], folder: str, *, writes: bool, everywhere: bool) -> list[TableBlock]:
    def list_actions(each: RefusedHost) -> tuple[Action, ...]:
        if not each.host or not (everywhere if ":" in each.host else writes):
            return ()
        args = {"host": each.host, "folder": folder}
        return (Action(label=LET, operation="egress.allow", args=args, tone=Tone.GOOD),)

    fields = (
        made("host", "Host", lambda each: each.target),
        made("times", "Times", lambda each: each.times),
        made("last_at", "Last", lambda each: make_moment(each.last_at)),
    )
    none = EmptyState(text="It was refused no host.")
    title = "Hosts it was refused lately"
    return [make_table(refused, fields, none, actions=list_actions, title=title)] if refused else []
