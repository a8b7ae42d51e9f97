"""A one-time address lets one browser in, as one person. It always works: nobody can lock its holder out.

The token stands in the fragment of the address, which no server log and no referrer ever sees; the page redeems it by
POST.
"""

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from gatepost.channels.local_channel import LocalChannel
from gatepost.core.clock import Clock
from gatepost.core.errors import NotFound
from gatepost.flow.people.page_logins import ONCE, issue_for_person
from gatepost.messages.inbound import OPERATOR
from gatepost.serve.web.json_api import error_response, read_text_field
from gatepost.serve.web.signin.contract import PREFIX, SignInDeps, sign_in_method
from gatepost.store.people import identities, logins, users
from gatepost.store.people.users import UserRole
from gatepost.store.port import Db, Store
from gatepost.store.rights import audit

NAME = "one_time_link"
LARGEST_BODY = 4096  # bytes


@sign_in_method(NAME, "", wanted=lambda config: True, order=0)
class OneTimeLinks:
    def __init__(self, deps: SignInDeps) -> None:
        self._deps = deps

    def routes(self) -> list[Route]:
        return [Route(PREFIX, self.sign_in, methods=["POST"])]

    async def sign_in(self, request: Request) -> Response:
        """Redeem a one-time token for a cookie. Unknown, used and too old look alike."""
        deps, token = self._deps, await read_text_field(request, "token", LARGEST_BODY)
        if await deps.browsers.find_visitor(request):
            await deps.store.write(logins.redeem, token, deps.clock.now())  # used up, so that nobody else can
            return JSONResponse({"ok": True})
        answer = await deps.browsers.sign_in(request, NAME, lambda db, now: logins.redeem(db, token, now))
        if answer is None:
            if not await deps.throttle.strike(deps.browsers.get_peer(request)):
                return error_response("refused", "Too many wrong addresses were tried from here; wait a while.", 429)
            return error_response("refused", "This address was used before or is too old.", 403)
        deps.throttle.reset(deps.browsers.get_peer(request))
        return answer


def issue_for_owner(db: Db, user: str, now: int) -> str:
    users.add(db, user, "owner", now)
    users.add_role(db, identities.get_person(db, user), UserRole.OWNER, "", "gatepost:system", now)
    return logins.issue_once(db, user, now + ONCE, now)


def _issue_for_person(db: Db, named: str, now: int) -> str:
    names = identities.list_names(db, named)
    if users.get(db, names[0]) is None:
        known = f"`gatepost user add {named if ':' in named else f'web:user/{named}'}` makes them known"
        raise NotFound("user", named, f"`gatepost user list` shows who there is, {known}")
    identity, token = issue_for_person(db, names[0], now)
    audit.append(db, audit.AuditRecord(now, OPERATOR, "login", "done", {"person": names[0], "identity": identity}))
    return token


async def make_login_url(store: Store, clock: Clock, hub: LocalChannel, base: str, person: str = "") -> str:
    """An address that signs the first browser that opens it in as a person, for ten minutes. '': the owner."""
    issue, user = (_issue_for_person, person) if person else (issue_for_owner, hub.owner)
    token = await store.write(issue, user, clock.now())
    return f"{base.rstrip('/')}/#token={token}"
