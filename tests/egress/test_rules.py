"""Who may reach which host, and which address is one that may be connected to."""

import pytest

from gatepost.core.errors import Invalid
from gatepost.egress.rules import EgressTarget, check_address, check_target, read_host, read_pattern, read_target
from gatepost.store.rights.egress import EgressRule


def rule(host: str, port: int = 0, folder: str | None = None, *, allow: bool = True, local: bool = False) -> EgressRule:
    return EgressRule(1, folder, host, port, allow, local, "operator", 0)


@pytest.mark.parametrize(
    "text",
    [
        "127.0.0.1",
        "127.1",
        "2130706433",
        "0x7f000001",
        "0177.0.0.1",
        "0x7f.1",
        "[::1]",
        "::1",
        "[::ffff:1.2.3.4]",
        "1.2.3.4.",
        "fe80::1%eth0",
        "foo.0x1",
        "foo.1",
    ],
)
def test_an_address_is_no_name_however_it_is_written(text: str) -> None:
    with pytest.raises(Invalid, match="host"):
        read_host(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        ".",
        "a..b",
        "-a.com",
        "a b.com",
        "user@host.com",
        "a.com/x",
        "a.com#",
        "ex%61mple.com",
        "exämple.com",
        "x" * 300,
    ],
)
def test_what_is_no_name_is_refused(text: str) -> None:
    with pytest.raises(Invalid):
        read_host(text)


@pytest.mark.parametrize(
    "text", ["a.com", "a.com:0", "a.com:65536", "a.com:+80", "a.com: 80", "a.com:80:80", "a.com:٨٠", "a.com:"]
)
def test_a_target_names_one_port(text: str) -> None:
    with pytest.raises(Invalid):
        read_target(text)


def test_a_name_has_one_spelling() -> None:
    assert read_target("EXAMPLE.com.:443") == EgressTarget("example.com", 443)


def test_a_rule_covers_sub_domains_and_the_usual_ports() -> None:
    rules = [rule("example.com")]
    allowed = [EgressTarget("example.com", 443), EgressTarget("a.b.example.com", 80)]
    not_allowed = [
        EgressTarget("example.com", 22),
        EgressTarget("notexample.com", 443),
        EgressTarget("example.com.evil.org", 443),
    ]
    assert all(check_target(rules, "acme", each).allowed for each in allowed)
    assert not any(check_target(rules, "acme", each).allowed for each in not_allowed)


def test_a_star_before_a_name_covers_sub_domains_alone() -> None:
    rules = [rule(*read_pattern("*.example.com"))]
    assert check_target(rules, "acme", EgressTarget("a.example.com", 443)).allowed
    assert not check_target(rules, "acme", EgressTarget("example.com", 443)).allowed


def test_rules_inherit_down_the_tree_and_a_denial_wins() -> None:
    rules = [rule("a.com", folder="acme"), rule("x.a.com", folder="acme/eng", allow=False)]
    assert check_target(rules, "acme/eng/sre", EgressTarget("a.com", 443)).allowed
    assert not check_target(rules, "acme/eng/sre", EgressTarget("x.a.com", 443)).allowed
    assert check_target(rules, "acme", EgressTarget("x.a.com", 443)).allowed
    assert not check_target(rules, "acmeist", EgressTarget("a.com", 443)).allowed
    assert not check_target(rules, "other", EgressTarget("a.com", 443)).allowed


def test_a_denial_without_a_port_holds_for_every_port() -> None:
    rules = [rule("a.com", 8443), rule("a.com", allow=False)]
    assert not check_target(rules, "acme", EgressTarget("a.com", 8443)).allowed


def test_root_has_no_children_to_inherit_its_rules() -> None:
    assert not check_target([rule("a.com", folder="root")], "acme", EgressTarget("a.com", 443)).allowed


def test_a_models_host_is_not_reached_even_where_everything_is_allowed() -> None:
    rules = [rule("*"), rule("anthropic.com"), rule("api.anthropic.com", 443, local=True)]
    assert not check_target(rules, "acme", EgressTarget("api.anthropic.com", 443)).allowed
    assert not check_target(
        rules, "acme", EgressTarget("models.lan", 443), frozenset({EgressTarget("models.lan", 443)})
    ).allowed


def test_only_a_rule_for_this_very_host_and_port_leads_to_a_local_address() -> None:
    exact = [rule("box.lan", 8080, local=True)]
    assert check_target(exact, "acme", EgressTarget("box.lan", 8080)).local
    assert not check_target(exact, "acme", EgressTarget("a.box.lan", 8080)).local
    assert not check_target([rule("box.lan")], "acme", EgressTarget("box.lan", 80)).local
    assert not check_target([rule("*", 8080)], "acme", EgressTarget("box.lan", 8080)).local


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "10.0.0.1",
        "172.16.0.1",
        "192.168.1.1",
        "100.64.0.1",
        "::1",
        "fd00::1",
        "::ffff:127.0.0.1",
        "::ffff:10.0.0.1",
        "64:ff9b::7f00:1",
        "2002:7f00:1::",
        "::127.0.0.1",
        "198.18.0.1",
        "192.0.2.1",
        "fec0::1",
    ],
)
def test_a_local_address_needs_the_operators_word(address: str) -> None:
    assert check_address(address, local=False)
    assert check_address(address, local=True) == ""


@pytest.mark.parametrize(
    "address",
    [
        "0.0.0.0",
        "::",
        "169.254.169.254",
        "::ffff:169.254.169.254",
        "64:ff9b::a9fe:a9fe",
        "fe80::1%eth0",
        "224.0.0.1",
        "ff02::1",
        "255.255.255.255",
        "240.0.0.1",
        "::ffff:0.0.0.0",
        "fd00:ec2::254",
        "fd00:ec2::23",
        "fd20:ce::254",
        "100.100.100.200",
        "::ffff:100.100.100.200",
        "192.0.0.192",
        "168.63.129.16",
        "64:ff9b:1::a9fe:a9fe",
        "64:ff9b:1::7f00:1",
    ],
)
def test_some_addresses_are_never_reached(address: str) -> None:
    assert check_address(address, local=True)


@pytest.mark.parametrize("address", ["8.8.8.8", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"])
def test_a_public_address_is_reached(address: str) -> None:
    assert check_address(address, local=False) == ""


def test_a_refusal_names_the_command_for_this_group_alone() -> None:
    target = EgressTarget("box.lan", 8080)
    way = "gatepost egress allow box.lan:8080 --folder acme/eng"
    assert check_target([], "acme/eng", target).reason.endswith(f"the operator can: {way}")
