"""The judgement of a gateway's configuration: what is more open than it need be, the worst first. Pure.

It says nothing of attacks, and nothing of what the operator cannot change. Each finding has the way out as a command,
and `PAGES` the page on which the same is done.
"""

from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct

from gatepost.core.process.listen_address import LOOPBACK, ListenAddress
from gatepost.flow.reports import SandboxIsolation
from gatepost.serve.health.findings import Finding, FindingLevel
from gatepost.serve.health.machine_checks import CLOSE
from gatepost.store.rooms.rooms import RoomPolicy

MOST_NAMED = 5
OLD_DAYS = 7
LOCAL = frozenset({LOOPBACK, "::1", "localhost"})
# Where each subject is looked at and changed on the page.
PAGES = {
    "secrets in files": "/doctor",
    "walls": "/doctor",
    "network address": "/settings",
    "everybody": "/access",
    "rooms": "/rooms",
    "open network": "/egress",
    "webhooks": "/links",
    "admins": "/people",
    "backups": "/backups",
    "budgets": "/costs",
    "holds": "/groups",
    "public pages": "/sites",
    "endless keys": "/api",
    "shared keys": "/secrets",
}


class PublicRoom(Struct, frozen=True):
    """`name` is what the operator or the platform calls it."""

    name: str
    address: str


class SecurityFacts(Struct, frozen=True, kw_only=True):
    open_files: Sequence[str] = ()  # private ones that other users of the machine may read or write
    walls: SandboxIsolation = SandboxIsolation("bubblewrap", True)
    listen: ListenAddress = ListenAddress("tcp", LOOPBACK, 8420)
    is_encrypted: bool = False  # something before it speaks TLS
    everybody: Sequence[int] = ()  # rows of the access list that allow something to anybody
    public_rooms: Sequence[PublicRoom] = ()
    open_network: Sequence[str] = ()  # groups that may reach every host; '': all
    unsigned_hooks: Sequence[str] = ()  # ids of webhooks
    invited_admins: Sequence[str] = ()
    proven_days: int | None = 0  # since the last proven backup; None: there is none
    has_budget: bool = True
    unheld: Sequence[str] = ()  # groups whose words and files go anywhere without a question
    public_pages: Sequence[tuple[str, str]] = ()  # group and path
    endless_tokens: Sequence[str] = ()  # ids of those by which programs run operations
    endless_links: Sequence[str] = ()  # ids of chat links, webhooks and invitations
    shared_secrets: Sequence[str] = ()  # names of those that agents of several worlds use


def judge_security(facts: SecurityFacts) -> list[Finding]:
    """Return what could be closed, the worst first; nothing of a gateway that is closed."""
    return [each for check in _CHECKS for each in check(facts)]


def _name(some: Sequence[str]) -> str:
    more = len(some) - MOST_NAMED
    return ", ".join(some[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def _make(level: FindingLevel, subject: str, text: str, remedy: str) -> Iterable[Finding]:
    return (Finding(level, subject, text, remedy),)


def _check_files(facts: SecurityFacts) -> Iterable[Finding]:
    if facts.open_files:
        text = f"other users of this machine may read or write {_name(facts.open_files)}"
        yield Finding("fail", "secrets in files", text, "gatepost doctor --fix", CLOSE)


def _check_walls(facts: SecurityFacts) -> Iterable[Finding]:
    if facts.walls.isolated:
        return ()
    text = "agents run without any walls, with all rights of the gateway's own user"
    if not facts.walls.kind:
        text = "no walls work here, so that agents other than the demo do not run"
    return _make("fail", "walls", text, 'set sandbox.kind = "auto" in gatepost.toml; `gatepost doctor` says what lacks')


def _check_address(facts: SecurityFacts) -> Iterable[Finding]:
    listen = facts.listen
    if listen.kind == "unix" or listen.host in LOCAL or facts.is_encrypted:
        return ()
    text = f"the page listens on {listen} without encryption: who is on the way reads what is said and how to sign in"
    cure = (
        "gatepost settings set listen 127.0.0.1:8420, and a proxy with TLS before it; web.url names its https address"
    )
    return _make("fail", "network address", text, cure)


def _check_everybody(facts: SecurityFacts) -> Iterable[Finding]:
    if not facts.everybody:
        return ()
    text = f"rules that allow something to everybody, or to a whole platform: {len(facts.everybody)}"
    return _make("fail", "everybody", text, f"gatepost grant rm {facts.everybody[0]}")


def _check_rooms(facts: SecurityFacts) -> Iterable[Finding]:
    if not facts.public_rooms:
        return ()
    text = f"anybody who writes there is let in: {_name([each.name for each in facts.public_rooms])}"
    cure = f"gatepost room policy {facts.public_rooms[0].address} {RoomPolicy.REQUEST_APPROVAL}"
    return _make("fail", "rooms", text, cure)


def _check_network(facts: SecurityFacts) -> Iterable[Finding]:
    if not facts.open_network:
        return ()
    named = _name([each or "all agents" for each in facts.open_network])
    text = f"every host can be reached, so anything can be carried out: {named}"
    return _make("warn", "open network", text, "gatepost egress list, then gatepost egress rm ID")


def _check_hooks(facts: SecurityFacts) -> Iterable[Finding]:
    if not facts.unsigned_hooks:
        return ()
    text = f"webhooks into which whoever knows the address may post: {len(facts.unsigned_hooks)}"
    return _make("warn", "webhooks", text, f"gatepost token sign {facts.unsigned_hooks[0]} github")


def _check_admins(facts: SecurityFacts) -> Iterable[Finding]:
    if not facts.invited_admins:
        return ()
    text = f"they manage agents because a link let them in: {_name(facts.invited_admins)}"
    return _make("warn", "admins", text, f"gatepost user block {facts.invited_admins[0]}, if they should not")


def _check_backups(facts: SecurityFacts) -> Iterable[Finding]:
    if facts.proven_days is not None and facts.proven_days < OLD_DAYS:
        return ()
    text = (
        "no backup is proven"
        if facts.proven_days is None
        else f"the last proven backup is {facts.proven_days} days old"
    )
    return _make("warn", "backups", text, "gatepost backup create --prove")


def _check_budget(facts: SecurityFacts) -> Iterable[Finding]:
    if facts.has_budget:
        return ()
    return _make(
        "warn",
        "budgets",
        "nothing limits what agents spend in a day or a month",
        "gatepost budget set --instance --daily 5",
    )


def _check_holds(facts: SecurityFacts) -> Iterable[Finding]:
    if not facts.unheld:
        return ()
    text = f"they send messages and files anywhere without a question: {_name(facts.unheld)}"
    return _make("warn", "holds", text, f"gatepost grant choose {facts.unheld[0]} hand_out ask")


def _check_pages(facts: SecurityFacts) -> Iterable[Finding]:
    if not facts.public_pages:
        return ()
    text = f"pages can be read by anybody: {_name([path for _, path in facts.public_pages])}"
    folder, path = facts.public_pages[0]
    return _make("warn", "public pages", text, f"gatepost site rm {folder} {path}")


def _check_endless(facts: SecurityFacts) -> Iterable[Finding]:
    if facts.endless_tokens:
        text = f"keys of programs that never end: {len(facts.endless_tokens)}"
        yield Finding(
            "warn", "endless keys", text, f"gatepost token api rm {facts.endless_tokens[0]}, then one with an end"
        )
    if facts.endless_links:
        text = f"links, webhooks and invitations that never end: {len(facts.endless_links)}"
        yield Finding("warn", "endless keys", text, f"gatepost token rm {facts.endless_links[0]}, then one with an end")


def _check_shared(facts: SecurityFacts) -> Iterable[Finding]:
    if not facts.shared_secrets:
        return ()
    text = f"agents that have nothing to do with each other use the same keys: {_name(facts.shared_secrets)}"
    return _make("warn", "shared keys", text, f"gatepost secret set {facts.shared_secrets[0]} --folder FOLDER for each")


# The worst first.
_CHECKS: tuple[Callable[[SecurityFacts], Iterable[Finding]], ...] = (
    _check_files,
    _check_walls,
    _check_address,
    _check_everybody,
    _check_rooms,
    _check_network,
    _check_hooks,
    _check_admins,
    _check_backups,
    _check_budget,
    _check_holds,
    _check_pages,
    _check_endless,
    _check_shared,
)
