"""What programs ask the site: health, numbers, and operations by a token."""

from typing import Any

import httpx2
import pytest

from gatepost.core.clock import DAY, SystemClock
from gatepost.core.records import replace
from gatepost.serve.control.contract import OPERATIONS, OperationDeps
from gatepost.serve.rate_limit import PeerRateLimiter
from gatepost.store.people import users
from gatepost.store.port import Db, inline_read
from gatepost.store.rights import api_tokens, audit
from gatepost.store.sessions import groups
from gatepost_testing.waiting import PATIENCE_S, until

PERSON = "telegram:user/9"
ACL = {"principal": PERSON, "action": "op:groups.read", "scope": "root"}


async def add_token(operation_deps: OperationDeps, *scopes: str, person: str = "", days: int = 1) -> tuple[str, str]:
    """(secret, id)."""
    made = await OPERATIONS["api_token.add"](operation_deps, {"scopes": [*scopes], "person": person, "days": days})
    return made["secret"], made["token"]["id"]


def ask(site: Any, token: str = "", **headers: str) -> httpx2.AsyncClient:
    """A program: no cookie, no origin."""
    given = {"authorization": f"Bearer {token}"} if token else {}
    return httpx2.AsyncClient(base_url=site.base, headers={**given, **headers}, timeout=PATIENCE_S)


async def test_it_is_well_and_ready_until_it_stops(site: Any) -> None:
    async with ask(site) as program:
        assert (await program.get("/healthz")).json() == {"status": "ok"}
        assert (await program.get("/readyz")).json() == {"status": "ok"}
        site.stopping.set()
        assert (await program.get("/readyz")).status_code == 503
        assert (await program.get("/healthz")).status_code == 200


async def test_a_gateway_whose_store_does_not_answer_is_not_ready(site: Any) -> None:
    site.store.close()
    async with ask(site) as program:
        answer = await program.get("/readyz")
        assert (answer.status_code, answer.json()) == (503, {"status": "the store does not answer"})
        assert (await program.get("/healthz")).status_code == 200


async def test_a_program_runs_an_operation_by_its_token_alone(site: Any, operation_deps: OperationDeps) -> None:
    secret, token_id = await add_token(operation_deps, "groups.*")
    async with ask(site, secret) as program:
        answer = await program.post("/v1/ops/group.add", json={"folder": "acme", "name": "Acme"})
        assert answer.status_code == 200 and answer.json()["ok"], answer.text
        refused = await program.post("/v1/ops/task.list", json={})
        assert refused.status_code == 403 and "tasks.read" in refused.json()["error"]["text"]
        assert (await program.post("/v1/ops/no.such", json={})).status_code == 404
        assert (await program.post("/v1/ops/group.add", json={"folder": 7})).status_code == 400
        assert (await program.get("/api/start")).status_code == 401  # it is no login
        assert (await program.get("/dashboard/tasks")).status_code == 401
    assert await site.store.read(groups.get, "acme") is not None
    rows = await site.store.read(audit.list_latest, 50)
    assert [token_id in str(row) for row in rows if "group.add" in row] == [True]


async def test_a_token_may_never_do_more_than_its_person_may_now(site: Any, operation_deps: OperationDeps) -> None:
    await site.store.write(users.add, PERSON, "Ada", 1)
    secret, _ = await add_token(operation_deps, "*", person=PERSON)
    async with ask(site, secret) as program:
        assert (await program.post("/v1/ops/group.list", json={})).status_code == 403
        row = await OPERATIONS["acl.add"](operation_deps, ACL)
        assert (await program.post("/v1/ops/group.list", json={})).status_code == 200
        assert (await program.post("/v1/ops/group.add", json={"folder": "x"})).status_code == 403
        await OPERATIONS["acl.rm"](operation_deps, {"id": row["id"]})
        assert (await program.post("/v1/ops/group.list", json={})).status_code == 403


@pytest.mark.parametrize("operation", ["api_token.add", "api_token.list", "api_token.rm"])
async def test_a_token_makes_sees_and_ends_no_tokens(site: Any, operation_deps: OperationDeps, operation: str) -> None:
    secret, token_id = await add_token(operation_deps, "*")
    async with ask(site, secret) as program:
        answer = await program.post(f"/v1/ops/{operation}", json={"scopes": ["*"], "id": token_id})
    assert answer.status_code == 403


@pytest.mark.slow
async def test_a_token_that_is_revoked_too_old_or_made_up_is_refused(site: Any, operation_deps: OperationDeps) -> None:
    secret, token_id = await add_token(operation_deps, "groups.read")
    async with ask(site, secret) as program:
        assert (await program.post("/v1/ops/group.list", json={})).status_code == 200
        await OPERATIONS["api_token.rm"](operation_deps, {"id": token_id})
        assert (await program.post("/v1/ops/group.list", json={})).status_code == 401
    old, _ = await add_token(operation_deps, "groups.read")
    await site.store.write(lambda db: db.run("UPDATE api_tokens SET expires_at = 1 WHERE revoked_at IS NULL"))
    for shown in (old, "gp_api_" + "x" * 43):
        async with ask(site, shown) as program:
            answer = await program.post("/v1/ops/group.list", json={})
            assert answer.status_code == 401 and answer.headers["www-authenticate"] == "Bearer"


@pytest.mark.slow
async def test_who_shows_no_token_that_works_is_held_like_every_stranger(
    site: Any, operation_deps: OperationDeps, monkeypatch: pytest.MonkeyPatch
) -> None:
    held: list[str] = []

    async def hold(self: PeerRateLimiter, scope: Any) -> None:
        held.append(scope["path"])

    monkeypatch.setattr(PeerRateLimiter, "hold", hold)
    secret, _ = await add_token(operation_deps, "groups.*")
    for token, times in (("", 1), ("made-up", 2), (secret, 2)):
        async with ask(site, token) as program:
            await program.post("/v1/ops/group.list", json={})
        assert held == ["/v1/ops/group.list"] * times


async def test_a_cookie_counts_for_nothing_at_the_api(site: Any) -> None:
    async with site.signed_in() as browser:
        assert (await browser.post("/v1/ops/group.list", json={})).status_code == 401


async def test_only_the_hash_of_a_token_is_kept_and_its_last_use_is_written_down(
    site: Any, operation_deps: OperationDeps
) -> None:
    secret, token_id = await add_token(operation_deps, "groups.read")
    async with ask(site, secret) as program:
        await program.post("/v1/ops/group.list", json={})

    def was_used(db: Db) -> bool:
        token = api_tokens.get(db, token_id)
        return token is not None and token.last_used_at is not None

    await until(lambda: site.store.read_now(inline_read(was_used)), "the last use of the token")
    rows = await site.store.read(lambda db: db.rows("SELECT * FROM api_tokens"))
    assert secret not in str(rows) and secret not in str(await OPERATIONS["api_token.list"](operation_deps, {}))


async def test_a_person_sees_and_ends_her_own_tokens_alone(site: Any, operation_deps: OperationDeps) -> None:
    await site.store.write(users.add, PERSON, "Ada", 1)
    for right in ("api_tokens.read", "api_tokens.write"):
        await OPERATIONS["acl.add"](operation_deps, {**ACL, "action": f"op:{right}"})
    _, of_operator = await add_token(operation_deps, "*")
    hers = replace(operation_deps, caller=PERSON)
    _, own = await add_token(hers, "groups.read")
    assert [each["id"] for each in await OPERATIONS["api_token.list"](hers, {})] == [own]
    with pytest.raises(Exception, match=of_operator):
        await OPERATIONS["api_token.rm"](hers, {"id": of_operator})
    with pytest.raises(Exception, match="only the operator"):
        await add_token(hers, "*", person="telegram:user/1")
    assert (await OPERATIONS["api_token.rm"](hers, {"id": own}))["state"] == "revoked"


def test_tokens_are_bounded_and_old_ones_make_way(db: Db) -> None:
    now = SystemClock().now()
    new = api_tokens.NewApiToken(label="", maker="operator", scopes=("*",), expires_at=now + DAY)
    for number in range(api_tokens.MOST):
        assert api_tokens.add(db, new, f"secret-{number}", now) is not None
    assert api_tokens.add(db, new, "one more", now) is None
    assert api_tokens.add(db, new, "later", now + 2 * DAY) is not None


@pytest.mark.parametrize(
    "headers",
    [
        {"x-forwarded-for": "203.0.113.9"},
        {"forwarded": "for=1.2.3.4"},
        {"via": "1.1 x"},
        {"host": "agents.example"},
    ],
)
async def test_the_numbers_are_for_this_machine_or_for_a_token(
    site: Any, operation_deps: OperationDeps, headers: dict[str, str]
) -> None:
    """A site without a gateway has none: 404 is what who may read them gets here."""
    async with ask(site) as program:
        assert (await program.get("/metrics")).status_code == 404
        assert (await program.get("/metrics", headers=headers)).status_code == 401
    secret, _ = await add_token(operation_deps, "status.read")
    other, _ = await add_token(operation_deps, "groups.read")
    async with ask(site, secret, **headers) as program:
        assert (await program.get("/metrics")).status_code == 404
    async with ask(site, other, **headers) as program:
        assert (await program.get("/metrics")).status_code == 403


async def test_nobody_becomes_a_member_of_no_group(site: Any, operation_deps: OperationDeps) -> None:
    await site.store.write(users.add, PERSON, "Ada", 1)
    secret, _ = await add_token(operation_deps, "users.write")
    async with ask(site, secret) as program:
        answer = await program.post("/v1/ops/user.member", json={"id": PERSON, "folder": ""})
    assert answer.status_code == 400 and "folder" in answer.json()["error"]["text"]


class TestBehindProxy:
    """A proxy on this machine that names nobody, and has our own name as its Host."""

    @pytest.fixture
    def given(self) -> dict[str, Any]:
        return {"web.trusted_proxies": ("127.0.0.1",)}

    async def test_its_visitors_are_not_on_this_machine(self, site: Any) -> None:
        async with ask(site) as program:
            assert (await program.get("/metrics")).status_code == 401
