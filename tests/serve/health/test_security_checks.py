"""The judgement of a configuration: each thing that is open is found, and a closed gateway is silent."""

from typing import Any

import pytest

from gatepost.core.process.listen_address import parse
from gatepost.flow.reports import SandboxIsolation
from gatepost.serve.health.security_checks import PAGES, PublicRoom, SecurityFacts, judge_security
from gatepost.serve.web.dashboard import contract

OPEN: list[tuple[dict[str, Any], str, str, str]] = [
    ({"open_files": ["/h/keyring.json"]}, "fail", "secrets in files", "gatepost doctor --fix"),
    ({"walls": SandboxIsolation("process", False)}, "fail", "walls", "sandbox.kind"),
    ({"walls": SandboxIsolation("", False)}, "fail", "walls", "sandbox.kind"),
    ({"listen": parse("0.0.0.0:80")}, "fail", "network address", "gatepost settings set listen"),
    ({"everybody": [7]}, "fail", "everybody", "gatepost grant rm 7"),
    ({"public_rooms": [PublicRoom("Team", "tg:group/1")]}, "fail", "rooms", "gatepost room policy tg:group/1"),
    ({"open_network": ["acme"]}, "warn", "open network", "gatepost egress rm"),
    ({"unsigned_hooks": ["tk-1"]}, "warn", "webhooks", "gatepost token sign tk-1"),
    ({"invited_admins": ["web:user/eve"]}, "warn", "admins", "gatepost user block web:user/eve"),
    ({"proven_days": None}, "warn", "backups", "gatepost backup create --prove"),
    ({"proven_days": 8}, "warn", "backups", "gatepost backup create --prove"),
    ({"has_budget": False}, "warn", "budgets", "gatepost budget set --instance"),
    ({"unheld": ["acme"]}, "warn", "holds", "gatepost grant choose acme hand_out ask"),
    ({"public_pages": [("acme", "/pub/acme")]}, "warn", "public pages", "gatepost site rm acme /pub/acme"),
    ({"endless_tokens": ["at-1"]}, "warn", "endless keys", "gatepost token api rm at-1"),
    ({"endless_links": ["tk-1"]}, "warn", "endless keys", "gatepost token rm tk-1"),
    ({"shared_secrets": ["STRIPE_KEY"]}, "warn", "shared keys", "gatepost secret set STRIPE_KEY"),
]


def test_a_closed_gateway_is_silent() -> None:
    assert judge_security(SecurityFacts()) == []


@pytest.mark.parametrize("listen", ["127.0.0.1:8420", ":8420", "[::1]:80", "unix:/run/gatepost.sock"])
def test_an_address_that_nobody_else_reaches_needs_no_encryption(listen: str) -> None:
    assert judge_security(SecurityFacts(listen=parse(listen))) == []


def test_an_address_of_the_network_behind_a_proxy_with_tls_is_no_finding() -> None:
    assert judge_security(SecurityFacts(listen=parse("0.0.0.0:8420"), is_encrypted=True)) == []


@pytest.mark.parametrize(("facts", "level", "subject", "cure"), OPEN)
def test_each_thing_that_is_open_is_found_with_the_way_out(
    facts: dict[str, Any], level: str, subject: str, cure: str
) -> None:
    (found,) = judge_security(SecurityFacts(**facts))
    assert (found.level, found.subject) == (level, subject) and cure in found.remedy


def test_the_worst_stands_first_and_long_lists_are_cut() -> None:
    facts = {name: value for case in OPEN for name, value in case[0].items()}
    found = judge_security(SecurityFacts(**{**facts, "unheld": [f"g{number}" for number in range(100)]}))
    levels = [each.level for each in found]
    assert levels == sorted(levels) and levels[0] == "fail" and len(found) == 15
    assert all(len(each.text) < 400 for each in found)


def test_each_finding_leads_to_a_page_that_is_there() -> None:
    subjects = {each.subject for case in OPEN for each in judge_security(SecurityFacts(**case[0]))}
    assert subjects == PAGES.keys()
    assert {*PAGES.values()} <= {path for path, _ in contract.PAGES.items()}
