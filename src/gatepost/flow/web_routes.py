"""Pages of groups: the part of the address space that a path lies in, who sees it, and who may change that.

A path belongs to the deepest group whose folder it begins with, and a row counts for that group alone: `/pub/acme` says
nothing about the pages of `acme/eng`. Without a row nothing is public. The longest path decides, but what somebody
higher has closed stays closed.

One function reads a path for agents, people and browsers. So a route and a request are never two readings of the same
text. It decodes once; a path that would mean something else when it is decoded again is refused.
"""

import ipaddress
import re
import socket
from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from urllib.parse import quote, unquote_to_bytes, urlsplit

from msgspec import Struct

from gatepost.access.tiers import ROOT_FOLDER, covers
from gatepost.core.errors import Invalid, NotFound, Refused
from gatepost.core.process import listen_address
from gatepost.core.settings import Config, setting
from gatepost.flow.pairing import PAGE_URL
from gatepost.flow.sender_rights import read_access, read_operation_rights
from gatepost.store.port import Db, inline_read
from gatepost.store.sessions import groups
from gatepost.store.web import web_routes
from gatepost.store.web.web_routes import WebAccess, WebHost, WebRoute

LONGEST_PATH = 1000  # characters, as it is written
MOST_SEGMENTS = 24
LONGEST_HOST = 253
_ENCODED = re.compile(r"%[0-9A-Fa-f]{2}")
_HALF_ENCODED = re.compile(r"%(?![0-9A-Fa-f]{2})")
_ENCODED_SLASH = re.compile(r"%(?:2f|5c)", re.IGNORECASE)
_LABEL = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\Z")
_NUMBER = re.compile(r"(?:[0-9]+|0x[0-9a-f]*)\Z")
_SHAPE = "write it like /pub/FOLDER/page or /priv/FOLDER/page"
HOSTS = setting("web.hosts", (), help="Further host names under which the web page may be asked for.")
LONGEST_KEPT = 400  # characters of a path that has a row
LONGEST_URL = 1000  # the same of where a redirect leads, as it is written in an address
SEES = "op:groups.read"  # who has it sees a group's pages without being in the group
_STRICTNESS = {WebAccess.PUBLIC: 0, WebAccess.REDIRECT: 0, WebAccess.AUTH: 1, WebAccess.DENY: 2}


class SiteKind(StrEnum):
    """The two parts of the address space, as paths begin."""

    PUBLIC = "pub"
    PRIVATE = "priv"

    @property
    def folder(self) -> str:
        """Return where a group keeps its files for it."""
        return "public_html" if self is SiteKind.PUBLIC else "private_html"


class SitePath(Struct, frozen=True):
    """`segments`: the group's folder and the rest, which only the list of groups can part. `slash`: at the end."""

    kind: SiteKind
    segments: tuple[str, ...]
    slash: bool = False

    @property
    def text(self) -> str:
        """As rows have it."""
        return "/".join(("", self.kind, *self.segments))

    @property
    def place(self) -> str:
        """Like a folder of a group, for who is judged by where it lies in the tree."""
        return "/".join(self.segments)

    def list_prefixes(self) -> list[str]:
        """The path and all above it, segment by segment."""
        return ["/".join(("", self.kind, *self.segments[:end])) for end in range(len(self.segments), 0, -1)]

    def list_folders(self) -> list[str]:
        """Every group that it could belong to."""
        return ["/".join(self.segments[:end]) for end in range(len(self.segments), 0, -1)]

    def is_below(self, other: "SitePath") -> bool:
        """Also if it is the same."""
        return self.kind is other.kind and self.segments[: len(other.segments)] == other.segments


def parse_site_path(text: str, field: str = "path") -> SitePath:
    kind, *segments = parse_segments(text, field) or [""]
    if kind not in tuple(SiteKind) or not segments:
        raise Invalid(field, f"{text[:80]!r} is no page of a group; {_SHAPE}")
    return SitePath(SiteKind(kind), tuple(segments), text.endswith("/"))


def parse_segments(text: str, field: str = "path") -> list[str]:
    """The parts of a path. Empty ones and `.` mean nothing; whatever could mean two things is refused."""
    if not text.startswith("/"):
        raise Invalid(field, f"{text[:80]!r} does not begin with a slash; {_SHAPE}")
    if len(text) > LONGEST_PATH:
        raise Invalid(field, f"is longer than {LONGEST_PATH} characters")
    if any(sign in text for sign in "?#\\") or _HALF_ENCODED.search(text) or _ENCODED_SLASH.search(text):
        raise Invalid(field, f"{text[:80]!r} has a sign that no path has: a question mark, a backslash, half a code")
    try:
        decoded = unquote_to_bytes(text).decode()
    except UnicodeError:
        raise Invalid(field, f"{text[:80]!r} is no UTF-8") from None
    if not decoded.isprintable() or _ENCODED.search(decoded):
        raise Invalid(field, f"{text[:80]!r} is encoded twice, or has a sign that cannot be printed")
    segments = [each for each in decoded.split("/") if each not in ("", ".")]
    if len(segments) > MOST_SEGMENTS:
        raise Invalid(field, f"has more than {MOST_SEGMENTS} parts")
    if not all(each.strip(". ") for each in segments):
        raise Invalid(field, f"{text[:80]!r} leads upwards, or has a part of dots alone")
    return segments


def render_url(*parts: str, slash: bool = False) -> str:
    """A path for a browser. It begins with one slash, whatever the parts hold, so it leads to no other host."""
    return "/" + "/".join(quote(part, safe="") for part in parts) + ("/" if slash and parts else "")


def parse_hostname(text: str, own: Iterable[str]) -> str:
    """A host name as browsers send it. `own`: names of the gateway itself, which are refused with all around them: a
    page there could set cookies for ours."""
    name = text.strip().lower().removesuffix(".")
    labels = name.split(".")
    if len(name) > LONGEST_HOST or len(labels) < 2 or not all(map(_LABEL.match, labels)):
        why = "letters a-z, digits and inner hyphens, in parts with dots between, without a port; others as xn--…"
        raise Invalid("hostname", f"{text[:80]!r} is no host name: {why}")
    if _NUMBER.match(labels[-1]) or _is_address(name):
        raise Invalid("hostname", f"{text[:80]!r} is an address in numbers; name a host")
    if labels[-1] == "localhost":
        raise Invalid("hostname", f"{text[:80]!r} is this machine itself")
    for each in map(normalize_host, own):
        if each and (name == each or name.endswith(f".{each}") or each.endswith(f".{name}")):
            raise Invalid("hostname", f"{text[:80]!r} is a name of the gateway itself, or lies below or above one")
    return name


def normalize_host(text: str) -> str:
    """The host of an address or a Host header in the one form that is compared; '' if it is none."""
    if len(text) > LONGEST_PATH:
        return ""
    try:
        host = urlsplit(text if "://" in text else f"//{text}").hostname or ""
        return host.removesuffix(".") if host.isascii() else host.encode("idna").decode().lower().removesuffix(".")
    except ValueError:  # also what cannot be encoded
        return ""


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


class RouteMaker(Struct, frozen=True, kw_only=True):
    """The maker of a change to a row. `folder`: the group of an agent; '' for a person. `reaches`: the groups that it
    may act on."""

    folder: str
    name: str
    now: int
    reaches: Callable[[str], bool]


class NewWebRoute(Struct, frozen=True, kw_only=True):
    path: str
    access: WebAccess
    redirect_to: str = ""


class SitePage(Struct, frozen=True, kw_only=True):
    """A browser's wish: a file (`parts`) of a group, and the row that decides who gets it."""

    folder: str
    kind: SiteKind
    parts: tuple[str, ...]
    access: WebAccess
    redirect_to: str = ""


@inline_read
def find_page(db: Db, path: SitePath) -> SitePage | None:
    """At our own address. None if it is no group's."""
    folder = groups.find_deepest(db, path.list_folders())
    return _find_in_group(db, path, folder, WebAccess.AUTH) if folder is not None else None


@inline_read
def find_hosted_page(db: Db, path: SitePath, folder: str) -> SitePage | None:
    """Under a host name of a group, which was bound to show its pages to everybody."""
    return _find_in_group(db, path, folder, WebAccess.PUBLIC)


def _find_in_group(db: Db, path: SitePath, folder: str, default: WebAccess) -> SitePage | None:
    """None for what lies in the folder of another group, which is named like one of pages."""
    parts = path.segments[folder.count("/") + 1 :]
    inside = SitePath(path.kind, (*folder.split("/"), path.kind.folder, *parts))
    if groups.find_deepest(db, inside.list_folders()) not in (folder, None):
        return None
    row = decide(web_routes.list_on_way(db, folder, path.list_prefixes()))
    return SitePage(
        folder=folder,
        kind=path.kind,
        parts=parts,
        access=row.access if row is not None else default,
        redirect_to=row.redirect_to if row is not None else "",
    )


def decide(rows: Sequence[WebRoute]) -> WebRoute | None:
    """Return the row that decides about a page; `rows` are those on its way, the longest path first. The first decides,
    unless an owner of higher rank is stricter."""
    chosen = rows[0] if rows else None
    for row in rows[1:]:
        assert chosen is not None
        if outranks(row.owner, chosen.owner) and _STRICTNESS[row.access] > _STRICTNESS[chosen.access]:
            chosen = row
    return chosen


def outranks(owner: str, other: str) -> bool:
    """A person stands above every agent, and an agent above those below its group."""
    return owner != other and (not owner or (bool(other) and covers(owner, other)))


def may_see(db: Db, person: str, folder: str) -> bool:
    """Return True if a person may see what a group shows to its own people."""
    return read_sight(db, person)(folder)


def read_sight(db: Db, person: str) -> Callable[[str], bool]:
    """The same for many groups: what it depends on is read once."""
    access, operations = read_access(db, person), read_operation_rights(db, person)

    def sees(folder: str) -> bool:
        rights = access.judge(folder)
        return rights is not None and (rights != "guest" or operations.allows(SEES, folder))

    return sees


def set_route(db: Db, new: NewWebRoute, maker: RouteMaker) -> WebRoute:
    path = parse_site_path(new.path)
    if len(path.text) > LONGEST_KEPT or any(sign in path.text for sign in "%?#"):  # a list shows it decoded
        raise Invalid("path", f"is longer than {LONGEST_KEPT} characters, or has a sign that no route may have")
    folder = get_slot(db, path, maker)
    if path.kind is SiteKind.PRIVATE and new.access is WebAccess.PUBLIC:
        raise Invalid("access", "private pages are never public; put the files into public_html")
    known = web_routes.get_route(db, path.text)
    if known is not None and known.folder == folder:
        _check_owner(maker, known.owner, path.text)
    if known is None and web_routes.count_routes_in_world(db, folder) >= web_routes.MOST_IN_WORLD:
        raise Invalid("path", f"there are {web_routes.MOST_IN_WORLD} web routes in this world; remove some first")
    made = WebRoute(
        folder=folder,
        path=path.text,
        access=new.access,
        redirect_to=_check_target(db, path, folder, new),
        owner=maker.folder,
        created_by=maker.name,
        created_at=maker.now,
    )
    web_routes.put_route(db, made)
    return made


def get_slot(db: Db, path: SitePath, maker: RouteMaker) -> str:
    """The group in whose part a path lies."""
    folder = groups.find_deepest(db, path.list_folders())
    if folder is None:
        raise NotFound("group", path.place[:80], "a path begins with /pub/ or /priv/ and the folder of a group")
    if not maker.reaches(folder):
        raise Refused(maker.name, "change pages", path.text[:80], f"they are those of {folder}")
    return folder


def _check_target(db: Db, path: SitePath, folder: str, new: NewWebRoute) -> str:
    """Return where a redirect leads: into the same group's pages, and not to itself."""
    if (new.access is WebAccess.REDIRECT) is not bool(new.redirect_to):
        raise Invalid("redirect_to", "is needed for access=redirect, and for nothing else")
    if not new.redirect_to:
        return ""
    target = parse_site_path(new.redirect_to, "redirect_to")
    if groups.find_deepest(db, target.list_folders()) != folder:
        raise Invalid("redirect_to", f"{target.text[:80]!r} is not among the pages of {folder}")
    if target.is_below(path):
        raise Invalid("redirect_to", f"{target.text[:80]!r} lies below {path.text[:80]!r}, so it leads to itself")
    found = render_url(target.kind, *target.segments, slash=target.slash)
    if len(found) > LONGEST_URL:
        raise Invalid("redirect_to", f"is longer than {LONGEST_URL} characters as an address, which is the most")
    return found


def remove_route(db: Db, text: str, maker: RouteMaker) -> WebRoute:
    """Unknown and somebody else's look alike."""
    path = parse_site_path(text).text
    known = web_routes.get_route(db, path)
    if known is None or not maker.reaches(known.folder) or not _may_change(maker, known.owner):
        raise NotFound("web route", path[:80], "it is not there, or not this group's")
    web_routes.remove_route(db, path)
    return known


def bind_host(db: Db, hostname: str, folder: str, maker: RouteMaker) -> WebHost:
    """`hostname`: as `parse_hostname` gives it."""
    if groups.get(db, folder) is None:
        raise NotFound("group", folder[:80], "a host name leads to one that exists")
    known = web_routes.get_host(db, hostname)
    if known is not None and not maker.reaches(known.folder):
        raise Refused(maker.name, "bind", hostname, "it leads to the pages of another group")
    if known is not None:
        _check_owner(maker, known.owner, hostname)
    if known is None and web_routes.count_hosts_in_world(db, folder) >= web_routes.MOST_HOSTS_IN_WORLD:
        most = web_routes.MOST_HOSTS_IN_WORLD
        raise Invalid("hostname", f"there are {most} host names in this world; the operator removes some first")
    made = WebHost(hostname, folder, maker.folder, maker.name, maker.now)
    web_routes.put_host(db, made)
    return made


def read_hostname(text: str, config: Config) -> str:
    """A name that a group's pages may have on this gateway."""
    listen = listen_address.parse(config[listen_address.LISTEN])
    if not listen.host and not list_own_names(config):  # a socket file: whoever stands before it knows our name
        raise Invalid("hostname", "the gateway's own name is not known; name it in web.hosts or web.url first")
    return parse_hostname(text, (*list_own_names(config), listen.host, socket.gethostname()))


def list_own_names(config: Config) -> list[str]:
    """By which the gateway's own page is asked for."""
    return [name for name in map(normalize_host, (*config[HOSTS], config[PAGE_URL])) if name]


def _check_owner(maker: RouteMaker, owner: str, what: str) -> None:
    if not _may_change(maker, owner):
        raise Refused(maker.name, "change", what[:80], f"{owner or 'a person'} made it")


def _may_change(maker: RouteMaker, owner: str) -> bool:
    """A person changes everything; an agent what it or one below it made; root's agent all."""
    return maker.folder in ("", ROOT_FOLDER) or (bool(owner) and covers(maker.folder, owner))
