"""What a browser says of itself, in a few words."""

import pytest

from gatepost.serve.web.signin.devices import parse_device

SAID = {
    "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0": "Firefox on Linux",
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Safari/537.36"
    " Edg/126.0.0.0": "Edge on Windows",
    "Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.5"
    " Mobile/15E148 Safari/604.1": "Safari on iPhone",
    "Mozilla/5.0 (Linux; Android 14; Pixel 8) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0 Mobile"
    " Safari/537.36": "Chrome on Android",
    "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.5"
    " Safari/605.1.15": "Safari on macOS",
    "curl/8.5.0": "curl",
    "": "",
    "<script>alert(1)</script>": "",
}


@pytest.mark.parametrize("said", SAID)
def test_a_browser_is_named_as_people_know_it(said: str) -> None:
    assert parse_device(said) == SAID[said]


def test_only_our_own_words_and_only_the_beginning_count() -> None:
    assert parse_device("x" * 1_000_000 + "Firefox/1 Linux") == ""
    assert len(parse_device("Firefox/" * 100_000 + "Linux")) < 40
