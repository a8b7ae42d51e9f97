"""The facts by which a configuration is judged: of the machine, of the settings and of the store."""

from collections.abc import Iterable, Sequence

from msgspec import Struct

from gatepost.access import grants
from gatepost.access.grants import GrantRule
from gatepost.access.subjects import Subject
from gatepost.access.tiers import ROOT_FOLDER
from gatepost.channels.contract import CHANNELS
from gatepost.core.clock import SystemClock
from gatepost.core.errors import GatepostError
from gatepost.core.home import Home
from gatepost.core.process.listen_address import LISTEN, parse
from gatepost.core.settings import Config
from gatepost.flow.invitations import INVITED_BY
from gatepost.flow.pairing import PAGE_URL
from gatepost.flow.sessions.sandbox.effective_group import FOLDER
from gatepost.flow.sessions.sandbox.isolation import find_isolation
from gatepost.serve.backups.backup_folder import count_days_unproven, find_folder, list_backups
from gatepost.serve.health.machine_checks import list_open_paths
from gatepost.serve.health.security_checks import PublicRoom, SecurityFacts
from gatepost.serve.web.trusted_proxies import TRUSTED_PROXIES
from gatepost.store.engine.place import get_place
from gatepost.store.engine.readonly import read_snapshot
from gatepost.store.money import budgets
from gatepost.store.people import users
from gatepost.store.port import Db
from gatepost.store.rights import acl, api_tokens, egress, secret_rows, secrets, tokens
from gatepost.store.rights.acl import AclEffect
from gatepost.store.rights.secret_rows import UNBOUND, is_channel_secret
from gatepost.store.rights.tokens import SignatureScheme, TokenKind, TokenState
from gatepost.store.rooms import rooms
from gatepost.store.sessions import groups
from gatepost.store.web import web_routes
from gatepost.store.web.web_routes import WebAccess

MOST_ROWS = 500
EVERY_HOST = "*"
OUTWARD = (Subject.SPEAK, Subject.HAND_OUT)
_NOBODYS = frozenset({ROOT_FOLDER})  # used by the owner alone


class StoredSecurity(Struct, frozen=True, kw_only=True):
    everybody: tuple[int, ...] = ()
    public_rooms: tuple[PublicRoom, ...] = ()
    open_network: tuple[str, ...] = ()
    unsigned_hooks: tuple[str, ...] = ()
    invited_admins: tuple[str, ...] = ()
    has_budget: bool = True
    unheld: tuple[str, ...] = ()
    public_pages: tuple[tuple[str, str], ...] = ()
    endless_tokens: tuple[str, ...] = ()
    endless_links: tuple[str, ...] = ()
    shared_secrets: tuple[str, ...] = ()


def read_security_facts(home: Home, config: Config) -> SecurityFacts:
    """Works with the gateway up or down. A store that is not there yet has nothing that is open."""
    place, now = get_place(home, config), SystemClock().now()
    stored = read_snapshot(place, read_stored, config, now) if place.exists() else StoredSecurity()
    try:
        days = count_days_unproven(list_backups(find_folder(home, config)), now)
    except (GatepostError, OSError):
        days = None
    return SecurityFacts(
        open_files=tuple(str(each) for each in list_open_paths(home)),
        walls=find_isolation(config),
        listen=parse(config[LISTEN]),
        is_encrypted=bool(config[TRUSTED_PROXIES]) or str(config[PAGE_URL]).startswith("https://"),
        everybody=stored.everybody,
        public_rooms=stored.public_rooms,
        open_network=stored.open_network,
        unsigned_hooks=stored.unsigned_hooks,
        invited_admins=stored.invited_admins,
        proven_days=days,
        has_budget=stored.has_budget,
        unheld=stored.unheld,
        public_pages=stored.public_pages,
        endless_tokens=stored.endless_tokens,
        endless_links=stored.endless_links,
        shared_secrets=stored.shared_secrets,
    )


def read_stored(db: Db, config: Config, now: int) -> StoredSecurity:
    folders = [each.folder for each in groups.list_all(db)]
    valid = [each for each in tokens.list_all(db) if each.get_state(now) is TokenState.VALID]
    hooks = [each for each in valid if each.kind is TokenKind.WEBHOOK]
    pages = [each for each in web_routes.list_routes(db, "", MOST_ROWS) if each.access is WebAccess.PUBLIC]
    programs = [each for each in api_tokens.list_all(db) if each.get_state(now) is TokenState.VALID]
    return StoredSecurity(
        everybody=tuple(
            each.id for each in acl.list_rows(db) if each.effect is AclEffect.ALLOW and "*" in each.principal
        ),
        public_rooms=tuple(_list_public_rooms(db)),
        open_network=tuple(
            sorted({each.folder or "" for each in egress.list_rules(db) if each.allow and each.host == EVERY_HOST})
        ),
        unsigned_hooks=tuple(each.id for each in hooks if each.signature is SignatureScheme.NONE),
        invited_admins=tuple(users.list_role_holders_by(db, INVITED_BY)),
        has_budget=bool(budgets.list_shared(db, now)),
        unheld=tuple(_list_unheld(db, [each for each in folders if each not in (*_NOBODYS, config[FOLDER])])),
        public_pages=tuple((each.folder, each.path) for each in pages),
        endless_tokens=tuple(each.id for each in programs if each.expires_at is None),
        endless_links=tuple(each.id for each in valid if each.expires_at is None),
        shared_secrets=tuple(_list_shared_secrets(db, folders)),
    )


def _list_public_rooms(db: Db) -> Iterable[PublicRoom]:
    """Those of the gateway's own platforms are the operator's."""
    for each in rooms.list_public(db, MOST_ROWS):
        kind = CHANNELS.get(each.instance)
        if kind is None or not kind.always:
            yield PublicRoom(each.name or each.address, each.address)


def _list_unheld(db: Db, folders: Sequence[str]) -> Iterable[str]:
    """Return the groups for which no rule of theirs, or of a group above, forbids or asks about what goes out."""
    known: dict[str, list[GrantRule]] = {}
    for row in acl.list_rules(db):
        known.setdefault(row.folder, []).append(grants.parse(row.text))
    for folder in folders:
        parts = folder.split("/")
        above = ["/".join(parts[:depth]) for depth in range(len(parts), 0, -1)]
        if not any(_restricts(rule) for each in above for rule in known.get(each, ())):
            yield folder


def _restricts(rule: GrantRule) -> bool:
    return rule.restricts and (rule.subject in OUTWARD or rule.action == "*")


def _list_shared_secrets(db: Db, folders: Sequence[str]) -> Iterable[str]:
    """Return the gateway's own secrets that agents of more than one world are given."""
    worlds = {each.split("/")[0] for each in folders} - _NOBODYS
    if len(worlds) < 2:
        return
    bound = {each.name for each in secret_rows.list_bindings(db) if each.folder is None}
    for each in secrets.list_all(db):
        is_gateways = not each.folder and not each.user_id and not is_channel_secret(each.name)
        if is_gateways and (each.name in bound or each.origin != UNBOUND):
            yield each.name
