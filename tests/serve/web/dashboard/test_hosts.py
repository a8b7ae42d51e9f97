"""Which hosts an agent was refused lately, and for which of them a rule is offered."""

from gatepost.serve.web.dashboard.hosts import list_refused
from gatepost.store.rights.egress import EgressAttempt, EgressOutcome, EgressRule


def try_host(target: str, last_at: int) -> EgressAttempt:
    return EgressAttempt(1, 1, last_at, 2, "home", "s1", target, EgressOutcome.DENIED, "it is not allowed")


def make_rule(host: str, *, allow: bool) -> EgressRule:
    return EgressRule(1, "home", host, 0, allow, False, "test", 1)


def test_each_host_is_listed_once_the_latest_first_and_not_what_may_be_reached_by_now() -> None:
    tried = [try_host(each, at) for at, each in enumerate(["a.org:443", "b.org:8443", "c.org:443", "a.org:443"])]
    found = list_refused(tried, [make_rule("c.org", allow=True)], "home")
    assert [(each.target, each.host, each.last_at) for each in found] == [
        ("a.org", "a.org", 3),
        ("b.org:8443", "b.org:8443", 1),
    ]


def test_nothing_is_offered_for_what_a_rule_denies_and_for_names_of_this_network() -> None:
    tried = [try_host(each, 1) for each in ("bad.org:443", "box.lan:8080", "localhost:80")]
    found = list_refused(tried, [make_rule("bad.org", allow=False)], "home")
    assert len(found) == 3 and not any(each.host for each in found)


def test_what_is_no_host_is_left_out() -> None:
    odd = ["-", "anthropic/claude-x", "10.0.0.1:80", "<b>:443", "a" * 300 + ".org:443", ""]
    assert list_refused([try_host(each, 1) for each in odd], [], "home") == []
