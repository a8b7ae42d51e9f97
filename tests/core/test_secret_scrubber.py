"""A secret that a server repeats is struck out of a stream however it is written, on both sides of every cut."""

import base64
import html
import json
from itertools import pairwise
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatepost.core.secret_scrubber import SecretScrubber, SecretStreamScrubber

SECRET = "sk/live+'\"<key>&=0123456789"
WRITTEN = {
    "plain": SECRET,
    "JSON": json.dumps(SECRET)[1:-1],
    "JSON with slashes": json.dumps(SECRET)[1:-1].replace("/", "\\/"),
    "JSON in JSON": json.dumps(json.dumps(SECRET))[1:-1],
    "JSON by numbers": "".join(f"\\u{ord(sign):04X}" for sign in SECRET),
    "HTML": html.escape(SECRET),
    "HTML twice": html.escape(html.escape(SECRET)),
    "HTML by numbers": "".join(f"&#{ord(sign)};" for sign in SECRET),
    "URL": quote(SECRET, safe=""),
    "URL twice": quote(quote(SECRET, safe=""), safe=""),
    "base64": base64.b64encode(SECRET.encode()).decode(),
    "base64 for URLs": base64.urlsafe_b64encode(SECRET.encode()).decode(),
    "base64 of more": base64.b64encode(f"user:{SECRET}@".encode()).decode(),
    "base64 in lines": base64.encodebytes(f"{'x' * 50}{SECRET}".encode()).decode(),
    "base64 in lines in JSON": json.dumps(base64.encodebytes(f"{'x' * 50}{SECRET}".encode()).decode())[1:-1],
    "hex": SECRET.encode().hex(),
}


def strike(data: bytes, cuts: list[int]) -> bytes:
    scrub = SecretStreamScrubber([SECRET])
    edges = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    return b"".join(scrub.feed(data[a:b]) for a, b in pairwise(edges)) + scrub.rest()


@pytest.mark.parametrize("form", WRITTEN)
@given(before=st.integers(0, 2000), cuts=st.lists(st.integers(0, 3000), max_size=5))
def test_a_secret_is_struck_out_of_a_stream_in_every_form_wherever_the_pieces_end(
    form: str, before: int, cuts: list[int]
) -> None:
    written = WRITTEN[form].encode()
    said = b"x" * before + b"[" + written + b"]" + b"y" * 50
    told = strike(said, cuts)
    assert len(told) == len(said)
    middle = told[before + 1 : before + 1 + len(written)]
    around = len(base64.b64encode(b"x" * 50)) + 8 if "in lines" in form else 12
    assert middle.count(b"*") >= len(written) - around, (form, middle)  # the signs around it in the base64 of more
    assert told.startswith(b"x" * before + b"[") and told.endswith(b"]" + b"y" * 50)


def test_bytes_without_a_secret_come_out_as_they_came() -> None:
    said = json.dumps({"a": "100 % & more \\ \u00e9 \n", "b": "<b>sk/live</b>"}).encode() * 50
    assert strike(said, [7, 300]) == said


def test_a_text_in_signs_beyond_ascii_is_struck_and_the_rest_of_it_stays() -> None:
    scrub = SecretScrubber(["pässwörd–1"])
    assert scrub.text("é & p%C3%A4ssw%C3%B6rd%E2%80%931 ü") == "é & [secret] ü"
    assert scrub.text("\ud800 & pässwörd–1") == "\ud800 & [secret]"
