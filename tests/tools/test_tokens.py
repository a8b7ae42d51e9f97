"""Tools for invitations, chat links and webhooks: within the caller's reach, shown once, taken back."""

import json
from pathlib import Path
from typing import Any

import pytest

from gatepost.access.grants import parse
from gatepost.core.clock import SystemClock
from gatepost.core.registry import load_package
from gatepost.core.settings import Config
from gatepost.flow import invitations
from gatepost.flow.codes import INVITATION
from gatepost.flow.invitations import NewInvitation
from gatepost.flow.onboarding import Applicant
from gatepost.gate.tool_answers import ToolAnswer
from gatepost.store.engine.sqlite_store import SqliteStore
from gatepost.store.people import pairing_codes, users
from gatepost.store.port import Db
from gatepost.store.rights import tokens
from gatepost.store.rights.tokens import Token, TokenKind
from gatepost.store.sessions import groups
from gatepost_testing.gate_agent import GateAgent, is_invalid

load_package("gatepost.tools")
NAMES = ("invite_create", "issue_chat_link", "issue_webhook", "list_tokens", "revoke_token")


def told(answer: ToolAnswer) -> dict[str, Any]:
    assert not answer.failed and not answer.code, answer.text
    found: dict[str, Any] = json.loads(answer.text)
    return found


async def acme(path: Path, store: SqliteStore, folder: str = "acme", **given: Any) -> GateAgent:
    agent = await GateAgent.create(path, store, folder, **given)
    for each in ("acme", "acme/eng", "acme/eng/sre", "other"):
        await store.write(groups.add, each, each.rpartition("/")[2], "", 1)
    return agent


async def find(store: SqliteStore, kind: TokenKind, token: str) -> Token | None:
    """As the page that answers it will."""
    return await store.read(tokens.find_valid, kind, token, SystemClock().now())


async def test_an_agents_invitation_makes_members(tmp_path: Path, store: SqliteStore) -> None:
    agent = await acme(tmp_path, store)
    made = told(
        await agent.call("invite_create", target_glob="acme/eng", max_uses=2, expires_at="2099-01-01T00:00:00Z")
    )
    assert (made["target_glob"], made["max_uses"], made["expires_at"]) == ("acme/eng", 2, "2099-01-01T00:00:00.000Z")
    code = INVITATION.find(made["token"])
    assert code is not None
    for number in range(3):
        who = Applicant(sender=f"fake:user/{number}", name="", instance="fake", address="fake:room/1", direct=False)
        result = await store.write(invitations.accept, code, who, SystemClock().now())
        assert result.accepted is (number < 2)
    assert (await store.read(users.get_roles, "fake:user/1")).member_of == ("acme/eng",)
    (listed,) = told(await agent.call("list_tokens"))["tokens"]
    assert (listed["id"], listed["kind"], listed["state"], listed["uses_left"]) == (made["id"], "invite", "used_up", 0)
    assert listed["created_by"] == "agent:acme" and ("invite_create", "allowed") in await agent.audited()


async def test_arizuko_37_a_chat_links_token_is_told_once_kept_as_a_hash_and_revoked(
    tmp_path: Path, store: SqliteStore
) -> None:
    agent = await acme(tmp_path, store)
    made = told(await agent.call("issue_chat_link", jid_suffix="support"))
    assert made["jid"] == "web:link/acme/support"
    assert made["url"] == f"http://127.0.0.1:8420/chat/{made['token']}"
    assert len(made["token"]) >= 43  # 256 bits
    assert made["token"] not in str(await store.read(lambda db: db.rows("SELECT * FROM tokens")))
    assert made["token"] not in (await agent.call("list_tokens")).text
    found = await find(store, TokenKind.CHAT_LINK, made["token"])
    assert found is not None and (found.folder, found.address) == ("acme", made["jid"])
    assert told(await agent.call("revoke_token", jid=made["jid"])) == {"deleted": 1}
    assert await find(store, TokenKind.CHAT_LINK, made["token"]) is None


async def test_a_webhook_is_for_one_source_and_is_no_chat_link(tmp_path: Path, store: SqliteStore) -> None:
    agent = await acme(tmp_path, store)
    made = told(await agent.call("issue_webhook", source_label="github", target_folder="acme/eng", jid_suffix="builds"))
    assert made["jid"] == "hook:acme/eng/github/builds"
    found = await find(store, TokenKind.WEBHOOK, made["token"])
    assert found is not None and (found.folder, found.label) == ("acme/eng", "github")
    assert await find(store, TokenKind.CHAT_LINK, made["token"]) is None
    assert told(await agent.call("revoke_token", id=made["id"])) == {"deleted": 1}
    assert await find(store, TokenKind.WEBHOOK, made["token"]) is None


async def test_a_webhook_has_its_address_instructions_and_a_secret_of_its_own(
    tmp_path: Path, store: SqliteStore
) -> None:
    agent = await acme(tmp_path, store, config=Config({"web.url": "https://gate.example/"}))
    made = told(await agent.call("issue_webhook", source_label="ci", context="Open a ticket.\x00", signature="github"))
    assert made["url"] == f"https://gate.example/hook/{made['token']}" and len(made["signing_secret"]) == 64
    found = await find(store, TokenKind.WEBHOOK, made["token"])
    assert found is not None and (found.instructions, found.signature) == ("Open a ticket.", "github")
    (listed,) = told(await agent.call("list_tokens"))["tokens"]
    assert (listed["signature"], listed["instructions"]) == ("github", "Open a ticket.")
    assert made["signing_secret"] not in str(listed)
    assert made["signing_secret"] not in str(await store.read(lambda db: db.rows("SELECT * FROM audit")))
    assert told(await agent.call("revoke_token", id=made["id"])) == {"deleted": 1}
    assert await store.read(lambda db: db.rows("SELECT name FROM secrets")) == []


@pytest.mark.parametrize(
    ("tool", "given", "words"),
    [
        ("invite_create", {"target_glob": "other"}, "may not invite_create on other"),
        ("invite_create", {"target_glob": "acme/../other"}, "may not invite_create"),
        ("invite_create", {"target_glob": "root"}, "may not invite_create on root"),
        ("invite_create", {"target_glob": "acme/**"}, "is a pattern"),
        ("invite_create", {"target_glob": "acme/", "max_uses": 11}, "10 are allowed"),
        ("invite_create", {"target_glob": "acme//"}, "may not invite_create"),
        ("invite_create", {"target_glob": "/"}, "may not invite_create"),
        ("invite_create", {"target_glob": "other/"}, "may not invite_create on other"),
        ("invite_create", {"target_glob": "acme/none"}, "no group named 'acme/none'"),
        ("invite_create", {"target_glob": "acme", "expires_at": "tomorrow"}, "expires_at"),
        ("invite_create", {"target_glob": "acme", "expires_at": "2001-01-01T00:00:00Z"}, "in the past"),
        ("issue_chat_link", {"target_folder": "other"}, "may not issue_chat_link on other"),
        ("issue_chat_link", {"jid_suffix": "../x"}, "suffix"),
        ("issue_webhook", {"source_label": "a b"}, "label"),
        ("issue_webhook", {"source_label": ""}, "label"),
        ("issue_webhook", {"source_label": "ci", "context": "x" * 4001}, "context"),
        ("issue_webhook", {"source_label": "ci", "signature": "rot13"}, "signature"),
        ("issue_webhook", {"source_label": "ci", "target_folder": "other", "context": "obey"}, "may not issue_webhook"),
        ("revoke_token", {}, "either a room by `jid` or one token by `id`"),
        ("revoke_token", {"jid": "web:link/acme", "id": "tk-1"}, "either a room"),
        ("revoke_token", {"id": "tk-made-up"}, "no token named"),
    ],
)
async def test_what_is_out_of_reach_or_malformed_is_refused(
    tmp_path: Path, store: SqliteStore, tool: str, given: dict[str, Any], words: str
) -> None:
    agent = await acme(tmp_path, store)
    answer = await agent.call(tool, **given)
    assert (answer.failed or answer.code) and words in answer.text, answer.text
    assert await store.read(tokens.list_all) == []


async def test_invitations_to_new_groups_count_as_the_groups_that_they_may_make(
    tmp_path: Path, store: SqliteStore
) -> None:
    agent = await acme(tmp_path, store)  # it has one child
    await store.write(groups.update, "acme", {"options": {"max_children": 4}})
    made = told(await agent.call("invite_create", target_glob="acme/", max_uses=3))
    assert made["target_glob"] == "acme/"
    full = await agent.call("register_group", jid="fake:room/1", folder="acme/new")
    assert full.failed and "it has 4 children, and 4 are allowed" in full.text
    code = INVITATION.find(made["token"])
    who = Applicant(sender="fake:user/1", name="", instance="fake", address="fake:direct/1", direct=True)
    assert code is not None and (await store.write(invitations.accept, code, who, SystemClock().now())).joined
    assert (await agent.call("invite_create", target_glob="acme/")).failed  # two uses, and one that is being made
    told(await agent.call("revoke_token", id=made["id"]))
    told(await agent.call("invite_create", target_glob="acme/", max_uses=2))


@pytest.mark.parametrize("uses", [0, -1, 1001])
async def test_the_uses_of_an_invitation_are_bounded(tmp_path: Path, store: SqliteStore, uses: int) -> None:
    agent = await acme(tmp_path, store)
    assert is_invalid(await agent.call("invite_create", target_glob="acme", max_uses=uses))


def add_others(db: Db) -> tuple[str, str]:
    """The ids of an invitation of another world and of a pairing link."""
    new = NewInvitation(folder="other", uses=1, expires_at=None, created_by="operator")
    made = invitations.issue(db, new, 1)
    link = tokens.NewToken(kind=TokenKind.PAIRING_LINK, identity="fake:user/1", uses_left=1, created_by="x")
    added = tokens.add(db, link, "secret", 1)
    assert added is not None
    return made.token.id, added.id


async def test_tokens_of_others_are_neither_seen_nor_revoked(tmp_path: Path, store: SqliteStore) -> None:
    agent = await acme(tmp_path, store)
    for token_id in await store.write(add_others):
        answer = await agent.call("revoke_token", id=token_id)
        assert answer.failed and "no token named" in answer.text
    assert told(await agent.call("list_tokens")) == {"tokens": [], "more": False}
    assert [each.revoked_at for each in await store.read(tokens.list_all)] == [None]


async def test_a_rule_that_forbids_it_binds_the_tools(tmp_path: Path, store: SqliteStore) -> None:
    rules = (parse("!invite_create(target_glob=acme/eng)"),)
    agent = await acme(tmp_path, store, rules=rules)
    assert (await agent.call("invite_create", target_glob="acme/eng")).failed
    assert told(await agent.call("invite_create", target_glob="acme"))["token"]


async def test_a_list_that_is_long_goes_on_behind_the_last(tmp_path: Path, store: SqliteStore) -> None:
    agent = await acme(tmp_path, store)
    ids = [told(await agent.call("issue_chat_link", jid_suffix=str(each)))["id"] for each in range(3)]
    rest = told(await agent.call("list_tokens", after=sorted(ids)[1]))["tokens"]
    assert [each["id"] for each in rest] == [sorted(ids)[0]]


async def test_an_agent_has_a_bounded_number_of_tokens(
    tmp_path: Path, store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokens, "MOST_IN_WORLD", 2)
    agent = await acme(tmp_path, store)
    for _ in range(2):
        told(await agent.call("invite_create", target_glob="acme"))
    answer = await agent.call("issue_chat_link", target_folder="acme/eng")
    assert answer.failed and "revoke some first" in answer.text


def test_invitations_have_more_bits_than_pairing_codes() -> None:
    assert INVITATION.length > pairing_codes.LENGTH
