"""Tokens that lead to a room of a group: chat links for people, webhooks for programs. The row names the group, because
the room's address does not say where the folder ends."""

import re
import secrets as random_values

from msgspec import Struct

from gatepost.access.tiers import ROOT_FOLDER
from gatepost.core import ids
from gatepost.core.errors import Invalid, NotFound
from gatepost.core.home import Home
from gatepost.core.keyring import Keyring
from gatepost.core.process.home_lock import read_holder
from gatepost.core.settings import Config
from gatepost.flow.invitations import too_many
from gatepost.flow.pairing import get_page_url
from gatepost.messages import address as addresses
from gatepost.messages.text import clean
from gatepost.store.port import Db
from gatepost.store.rights import secrets, tokens
from gatepost.store.rights.secret_rows import SecretOwner
from gatepost.store.rights.tokens import NewToken, SignatureScheme, Token, TokenKind
from gatepost.store.sessions import groups

PREFIXES = {  # no room of a person, or of the owner, begins like that
    TokenKind.CHAT_LINK: "web:link/",
    TokenKind.WEBHOOK: "hook:",
}
PATHS = {  # of the pages that answer tokens
    TokenKind.CHAT_LINK: "/chat/",
    TokenKind.WEBHOOK: "/hook/",
    TokenKind.INVITE: "/invite/",
}
MOST_ORIGINS = 10
LONGEST_INSTRUCTIONS = 4000  # characters
SHORTEST_SECRET, LONGEST_SECRET = 16, 200
_SECRET = re.compile(r"[\x21-\x7e]+\Z")
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")
_ORIGIN = re.compile(r"https?://[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?(?::[0-9]{1,5})?\Z")


class NewLink(Struct, frozen=True, kw_only=True):
    kind: TokenKind
    folder: str
    label: str  # of a webhook: what reports there
    suffix: str
    created_by: str
    expires_at: int | None = None
    instructions: str = ""
    signature: SignatureScheme = SignatureScheme.NONE
    signing_secret: str = ""  # '': one is made
    origins: tuple[str, ...] = ()  # of a chat link: pages that may show it in a frame


class IssuedLink(Struct, frozen=True):
    """`secret`: as it is shown, once. So is `signing_secret`, if it was made here."""

    token: Token
    secret: str
    signing_secret: str = ""


def make_url(config: Config, home: Home, kind: TokenKind, secret: str) -> str:
    """Return where a token is answered; '' if no page does, or nobody knows where that is."""
    holder = read_holder(home)
    base = get_page_url(config, holder.listen if holder is not None else "")
    return f"{base}{PATHS[kind]}{secret}" if base and kind in PATHS else ""


def issue(db: Db, new: NewLink, now: int, keyring: Keyring | None = None) -> IssuedLink:
    """`keyring`: to seal what proves a webhook's senders."""
    _check_webhook(new)
    if new.folder == ROOT_FOLDER:
        raise Invalid("folder", "root is for owners: no link leads there")
    if groups.get(db, new.folder) is None:
        raise NotFound("group", new.folder, "`gatepost group list` shows which there are")
    if new.expires_at is not None and new.expires_at <= now:
        raise Invalid("expires_at", "is in the past; name a later moment")
    secret = ids.token()
    key, signing = _seal(db, keyring, new.folder, new.signature, new.signing_secret, now)
    row = NewToken(
        kind=new.kind,
        folder=new.folder,
        address=make_address(new),
        label=new.label,
        expires_at=new.expires_at,
        created_by=new.created_by,
        instructions=clean(new.instructions).strip(),
        signature=new.signature,
        signing_key=key,
        origins=_render_origins(new),
    )
    made = tokens.add(db, row, secret, now)
    if made is None:
        raise too_many(new.created_by, new.folder)
    return IssuedLink(made, secret, "" if new.signing_secret else signing)


def set_signature(db: Db, link: Token, scheme: SignatureScheme, given: str, now: int, keyring: Keyring | None) -> str:
    """From now on the posts of a webhook are proved so. The secret, if it was made here; '' if it was given."""
    if link.kind is not TokenKind.WEBHOOK or link.folder is None:
        raise Invalid("id", f"{link.id} is no webhook: nothing else is signed")
    _check_secret(scheme, given)
    key, signing = _seal(db, keyring, link.folder, scheme, given, now)
    tokens.set_signature(db, link.id, scheme, key)
    return "" if given else signing


def _seal(
    db: Db, keyring: Keyring | None, folder: str, scheme: SignatureScheme, given: str, now: int
) -> tuple[str, str]:
    """(the name under which it is kept, the secret). A name is used once: whoever has the old one open notices. It is
    that of a channel's secret, which no agent gets."""
    if scheme is SignatureScheme.NONE:
        return "", ""
    if keyring is None:
        raise Invalid("signature", "this process cannot seal secrets")
    name = secrets.get_channel_secret_name("hook", ids.new("k"))
    value = given or random_values.token_hex(32)
    secrets.put(db, keyring, SecretOwner(folder), name, value, now)
    return name, value


def _check_webhook(new: NewLink) -> None:
    if new.kind is not TokenKind.WEBHOOK and (new.instructions or new.signature is not SignatureScheme.NONE):
        raise Invalid("kind", "instructions and signatures are for webhooks; people prove nothing by them")
    if len(new.instructions) > LONGEST_INSTRUCTIONS:
        raise Invalid("instructions", f"has {len(new.instructions)} characters; at most {LONGEST_INSTRUCTIONS} fit")
    _check_secret(new.signature, new.signing_secret)


def _check_secret(scheme: SignatureScheme, given: str) -> None:
    if given and scheme is SignatureScheme.NONE:
        raise Invalid("signature", "is missing: say which service signs with this secret")
    if given and not (SHORTEST_SECRET <= len(given) <= LONGEST_SECRET and _SECRET.match(given)):
        signs = f"{SHORTEST_SECRET} to {LONGEST_SECRET} visible signs of ASCII"
        raise Invalid("signing_secret", f"is not {signs}; copy it from the service, or leave it out")


def make_address(new: NewLink) -> str:
    """`web:link/FOLDER[/SUFFIX]`, `hook:FOLDER/LABEL[/SUFFIX]`."""
    if new.kind is TokenKind.WEBHOOK and not new.label:
        raise Invalid("label", "is missing: a webhook has a word for what reports there, like github")
    if new.label:
        _check_name("label", new.label)
    if new.suffix:
        _check_name("suffix", new.suffix)
    label = new.label if new.kind is TokenKind.WEBHOOK else ""
    parts = (new.folder, label, new.suffix)
    return str(addresses.parse(PREFIXES[new.kind] + "/".join(part for part in parts if part)))


def _render_origins(new: NewLink) -> str:
    """They stand in a header later: nothing but plain origins gets there."""
    if new.origins and new.kind is not TokenKind.CHAT_LINK:
        raise Invalid("origins", "only a chat link is shown in other pages")
    if len(new.origins) > MOST_ORIGINS:
        raise Invalid("origins", f"at most {MOST_ORIGINS} are possible; make a second link for the others")
    for each in new.origins:
        if not _ORIGIN.match(each):
            raise Invalid("origins", f"{each[:80]!r} is not a page's origin; write it like https://shop.example")
    return " ".join(dict.fromkeys(new.origins))


def _check_name(field: str, text: str) -> None:
    if not _NAME.match(text):
        raise Invalid(field, f"{text[:80]!r} is not a name of letters, digits, `_` and `-`, at most 64")
