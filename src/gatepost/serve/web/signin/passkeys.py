"""Passkeys: an authenticator signs a browser in as the person who added it. No name is asked for, nothing is typed.

Each ceremony has two steps. The first gives the browser a challenge and a ticket in a cookie; the second brings what
the authenticator signed. A ticket is good for one sign-in, so a copied answer is worth nothing.
"""

import asyncio
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from gatepost.core.errors import Invalid, Unavailable
from gatepost.messages.text import clean
from gatepost.serve.control.operations.credentials import FRESH_LOGIN
from gatepost.serve.control.passkey_setting import EXTRA, LIBRARY, PASSKEY_LOGIN
from gatepost.serve.web.browser_security import is_write_proven, render_csrf_refusal
from gatepost.serve.web.json_api import error_response, get_text, read_object
from gatepost.serve.web.signin.contract import PREFIX, SignInDeps, sign_in_method
from gatepost.serve.web.signin.relying_party import (
    ONLY_THERE,
    PasskeyOwner,
    PasskeyRefusal,
    RelyingParty,
    find_relying_party,
)
from gatepost.serve.web.signin.tickets import SignInTicket, TicketCookies, TicketPurpose, spend
from gatepost.serve.web.signin.visitors import WebVisitor
from gatepost.store.people import logins, passkeys
from gatepost.store.people.passkeys import MOST, NewPasskey, PasskeyCredential
from gatepost.store.port import Db, inline_read
from gatepost.store.rights import audit

if TYPE_CHECKING:
    from gatepost.serve.web.webauthn import PasskeyCeremonies

NAME = "passkey"
T = TypeVar("T")
LARGEST_BODY = 32 * 1024  # bytes
LONGEST_LABEL = 60
HANDLE_BYTES = CHALLENGE_BYTES = 32
UNKNOWN = "This passkey is not known here, or it took longer than five minutes. Try again, or sign in another way."
NOT_ADDED = "The passkey was not added: {}."
STALE = "You signed in more than ten minutes ago. Sign out and in again, then add the passkey."


@sign_in_method(
    NAME,
    "Sign in with a passkey",
    wanted=lambda config: config[PASSKEY_LOGIN],
    module=LIBRARY,
    extra=EXTRA,
    script="passkeys.js",
    order=10,
)
class PasskeySignIn:
    def __init__(self, deps: SignInDeps) -> None:
        self._deps, self._tickets = deps, TicketCookies(deps.browsers, deps.clock, deps.tickets)

    def routes(self) -> list[Route]:
        return [
            Route(f"{PREFIX}/passkey/begin", self.begin, methods=["POST"]),
            Route(f"{PREFIX}/passkey/finish", self.finish, methods=["POST"]),
            Route(f"{PREFIX}/passkey/add/begin", self.begin_adding, methods=["POST"]),
            Route(f"{PREFIX}/passkey/add/finish", self.finish_adding, methods=["POST"]),
        ]

    async def begin(self, request: Request) -> Response:
        """Return what the browser asks the authenticator for."""
        party, challenge = find_party(request), os.urandom(CHALLENGE_BYTES)
        options = await _run(party, lambda ceremonies: ceremonies.render_request(challenge))
        answer = JSONResponse({"options": options})
        await self._tickets.set(request, answer, TicketPurpose.PASSKEY_SIGN_IN, {"challenge": challenge.hex()})
        return answer

    async def finish(self, request: Request) -> Response:
        """Sign in the owner of the passkey. Unknown, copied and late passkeys look alike."""
        party, given = find_party(request), await read_object(request, LARGEST_BODY)
        ticket = await self._tickets.find(request, TicketPurpose.PASSKEY_SIGN_IN)
        check = await self._check(party, ticket, given) if ticket is not None else None
        answer = None
        if check is not None:
            answer = await self._deps.browsers.sign_in(request, NAME, check)
        if answer is None:
            if not await self._deps.throttle.strike(self._deps.browsers.get_peer(request)):
                return error_response("refused", "Too many wrong passkeys were tried from here; wait a while.", 429)
            answer = error_response("refused", UNKNOWN, 403)
        else:
            self._deps.throttle.reset(self._deps.browsers.get_peer(request))
        self._tickets.clear(request, answer, TicketPurpose.PASSKEY_SIGN_IN)
        return answer

    async def _check(
        self, party: RelyingParty, ticket: SignInTicket, given: dict[str, Any]
    ) -> Callable[[Db, int], str | None] | None:
        """Return what decides in the transaction of the sign-in; None: the signature proves nothing."""
        try:
            credential_id = await _run(party, lambda ceremonies: ceremonies.read_credential_id(given))
            known = await self._deps.store.read(passkeys.find_credential, credential_id)
            if known is None or known.host != party.place:
                return None
            challenge = bytes.fromhex(ticket.values["challenge"])
            signed = (challenge, known.credential, known.user_handle, given)
            count = await _run(party, lambda ceremonies: ceremonies.check_assertion(*signed))
        except PasskeyRefusal:
            return None
        return lambda db, now: record_sign_in(db, known, count, now) if spend(db, ticket, now) else None

    async def begin_adding(self, request: Request) -> Response:
        visitor, party = await self._find_visitor(request), find_party(request)
        if isinstance(visitor, Response):
            return visitor
        await self._deps.store.read(
            check_fresh, self._deps.browsers.get_token(request), visitor.user, self._deps.clock.now()
        )
        handle = await self._deps.store.read(passkeys.get_handle, visitor.user) or os.urandom(HANDLE_BYTES)
        known = await self._deps.store.read(passkeys.list_credential_ids, visitor.user, party.place)
        owner, challenge = PasskeyOwner(handle, visitor.user, visitor.called), os.urandom(CHALLENGE_BYTES)
        options = await _run(party, lambda ceremonies: ceremonies.render_creation(owner, challenge, known))
        answer = JSONResponse({"options": options})
        values = {"challenge": challenge.hex(), "handle": handle.hex(), "user": visitor.user}
        await self._tickets.set(request, answer, TicketPurpose.ADD_PASSKEY, values)
        return answer

    async def finish_adding(self, request: Request) -> Response:
        visitor, party = await self._find_visitor(request), find_party(request)
        if isinstance(visitor, Response):
            return visitor
        given, label = await read_label(request)
        ticket = await self._tickets.find(request, TicketPurpose.ADD_PASSKEY)
        if ticket is None or ticket.values["user"] != visitor.user:
            raise Invalid("", NOT_ADDED.format("it took longer than five minutes; try again"))
        challenge, handle = bytes.fromhex(ticket.values["challenge"]), bytes.fromhex(ticket.values["handle"])
        try:
            made = await _run(party, lambda ceremonies: ceremonies.check_creation(challenge, given))
        except PasskeyRefusal as error:
            raise Invalid("", NOT_ADDED.format(error)) from None
        new = NewPasskey(
            credential_id=made.id,
            credential=made.data,
            user_id=visitor.user,
            user_handle=handle,
            host=party.place,
            sign_count=made.sign_count,
            label=label,
        )
        browser, now = self._deps.browsers.get_token(request), self._deps.clock.now()
        await self._deps.store.write(_add_once, ticket, new, browser, now)
        answer = JSONResponse({"ok": True})
        self._tickets.clear(request, answer, TicketPurpose.ADD_PASSKEY)
        return answer

    async def _find_visitor(self, request: Request) -> WebVisitor | Response:
        """Return who adds a passkey, or why nobody does."""
        visitor = await self._deps.browsers.find_visitor(request)
        if visitor is None:
            return error_response("signed_out", "You are not signed in.", 401)
        proven = is_write_proven(request, self._deps.browsers.get_token(request))
        return visitor if proven else render_csrf_refusal()


async def _run(party: RelyingParty, work: Callable[["PasskeyCeremonies"], T]) -> T:
    """Do one step of a ceremony in a thread, which also loads the library when the first passkey is used."""
    return await asyncio.to_thread(lambda: work(_open_ceremonies(party)))


def _open_ceremonies(party: RelyingParty) -> "PasskeyCeremonies":
    from gatepost.serve.web.webauthn import PasskeyCeremonies

    return PasskeyCeremonies(party)


def find_party(request: Request) -> RelyingParty:
    """By the Origin, which is that of the Host: what stands before every write has compared them."""
    party = find_relying_party(request.headers.get("origin", ""))
    if party is None:
        raise Invalid("", ONLY_THERE)
    return party


async def read_label(request: Request) -> tuple[dict[str, Any], str]:
    """Return what the authenticator said, and how the person calls it."""
    body = await read_object(request, LARGEST_BODY)
    given, label = body.get("credential"), " ".join(clean(get_text(body, "label")).split())
    if not isinstance(given, dict):
        raise Invalid("credential", "it is missing")
    if not 0 < len(label) <= LONGEST_LABEL:
        raise Invalid("label", f"name the passkey, in at most {LONGEST_LABEL} characters")
    return given, label


def record_sign_in(db: Db, known: PasskeyCredential, count: int, now: int) -> str | None:
    """Whom it signs in. None if it was removed, or if there are two of it: then the audit says so."""
    if passkeys.record_use(db, known.id, count, now):
        return known.user_id
    if passkeys.get(db, known.id) is not None:
        details = {"passkey": known.id, "why": "its counter did not rise, so there may be a copy of it"}
        audit.append(db, audit.AuditRecord(now, known.user_id, "passkey.use", "refused", details))
    return None


@inline_read
def check_fresh(db: Db, browser: str, user: str, now: int) -> None:
    """A passkey lasts longer than a sign-in: whoever finds a browser that was left open must not get one."""
    found = logins.find_browser(db, browser, now)
    if found is None or found.user_id != user:
        raise Invalid("", NOT_ADDED.format("this browser is not signed in any more"))
    if now - found.created_at > FRESH_LOGIN:
        raise Invalid("", STALE)


def _add_once(db: Db, ticket: SignInTicket, new: NewPasskey, browser: str, now: int) -> None:
    if not spend(db, ticket, now):
        raise Invalid("", NOT_ADDED.format("it was added before"))
    add_passkey(db, new, browser, now)


def add_passkey(db: Db, new: NewPasskey, browser: str, now: int) -> None:
    """By whoever is signed in at this moment."""
    check_fresh(db, browser, new.user_id, now)
    made = passkeys.add(db, new, now)
    if made is None:
        raise Unavailable("adding", f"you have {MOST} passkeys, or this one is known already")
    details = {"passkey": made.id, "label": made.label, "host": made.host}
    audit.append(db, audit.AuditRecord(now, new.user_id, "passkey.add", "done", details))
