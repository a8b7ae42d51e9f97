"""Under which names the page may be asked for."""

import pytest
from starlette.datastructures import Headers

from gatepost.serve.web.browser_security import host_allowed, write_allowed


@pytest.mark.parametrize(
    ("header", "listens", "allowed"),
    [
        ("127.0.0.1:8420", "127.0.0.1", True),
        ("localhost:9000", "127.0.0.1", True),
        ("[::1]:8420", "127.0.0.1", True),
        ("LOCALHOST", "127.0.0.1", True),
        ("agents.example", "127.0.0.1", True),
        ("evil.example:8420", "127.0.0.1", False),
        ("127.0.0.1.evil.example", "127.0.0.1", False),
        ("192.168.1.5:8420", "127.0.0.1", False),
        ("192.168.1.5:8420", "0.0.0.0", True),
        ("[fe80::1]:8420", "::", True),
        ("evil.example", "0.0.0.0", False),
        ("box.lan", "box.lan", True),
        ("", "127.0.0.1", False),
        ("[::1", "127.0.0.1", False),
        ("localhost@evil.example", "127.0.0.1", False),
    ],
)
def test_a_name_must_be_ours(header: str, listens: str, allowed: bool) -> None:
    assert host_allowed(header, listens, ("agents.example",)) is allowed


@pytest.mark.parametrize(
    ("origins", "allowed"),
    [
        ((), False),
        (("http://box.lan",), True),
        (("http://box.lan", "http://box.lan"), True),
        (("http://box.lan", "http://evil.example"), False),
        (("http://evil.example",), False),
    ],
)
def test_a_write_comes_from_our_page_by_every_origin_that_it_names(origins: tuple[str, ...], allowed: bool) -> None:
    given = [("host", "box.lan"), ("x-gatepost", "1"), *(("origin", each) for each in origins)]
    raw = [(name.encode(), value.encode()) for name, value in given]
    assert write_allowed(Headers(raw=raw)) is allowed
