"""A program's token and what it can give away by an invitation."""

from typing import Any

from tests.serve.web.test_api_routes import add_token, ask

from gatepost.flow import sender_rights
from gatepost.serve.control.contract import OPERATIONS, OperationDeps
from gatepost.store.sessions import groups

NEW = "web:user/mallory"


async def test_a_token_for_links_gives_nobody_more_than_its_scopes(site: Any, operation_deps: OperationDeps) -> None:
    """Whoever has a token with the one scope `tokens.write` becomes an admin with 14 rights, who outlives the token."""
    await site.store.write(groups.add, "acme", "Acme", "", 1)
    secret, token_id = await add_token(operation_deps, "tokens.write")
    async with ask(site, secret) as program:
        refused = await program.post("/v1/ops/group.set", json={"folder": "acme", "name": "Mine"})
        assert refused.status_code == 403  # as it should be
        given = {"folder": "acme", "page": True, "rights": "manage"}
        answer = await program.post("/v1/ops/invite.create", json=given)
    if answer.status_code == 403:
        return
    assert answer.status_code == 200, answer.text
    made = answer.json()
    made = made.get("result", made)
    code = made.get("secret") or made.get("url", "").rpartition("/")[2]
    assert code, made
    await OPERATIONS["api_token.rm"](operation_deps, {"id": token_id})
    async with site.browser() as browser:
        joined = await browser.post("/login/invitation", json={"token": code, "name": "Mallory"})
        assert joined.status_code == 200, joined.text
    rights = await site.store.read(sender_rights.read_operation_rights, NEW)
    assert not rights.allows("op:groups.write", "acme"), "tokens.write became groups.write, and outlived the token"
