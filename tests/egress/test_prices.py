"""Prices: what a call costs, what it costs at worst, whose price is not known, and the operator's own file."""

import os
import tomllib
from datetime import date
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatepost.core.errors import Invalid, SetupError
from gatepost.core.home import Home
from gatepost.core.settings import Config
from gatepost.egress.prices import (
    FILE,
    PriceList,
    find_price,
    find_shipped_source,
    load_own_prices,
    load_shipped_prices,
    parse_price,
    read_prices,
    write_price,
)
from gatepost.store.money.costs import TokenCounts

MILLION = 1_000_000


@pytest.mark.parametrize(
    ("model", "listed"),
    [
        ("claude-sonnet-4-5-20250929", "claude-sonnet-4-5"),
        ("gpt-5-2025-08-07", "gpt-5"),
        ("claude-3-7-sonnet-latest", "claude-3-7-sonnet"),
        ("gpt-4.1", "gpt-4.1"),
    ],
)
def test_a_model_is_known_with_and_without_its_date(model: str, listed: str) -> None:
    assert find_price(model) == load_shipped_prices()[listed]


def test_a_date_with_a_price_of_its_own_has_that_and_one_that_nobody_listed_the_dearest() -> None:
    first, usual = find_price("gpt-4o-2024-05-13"), find_price("gpt-4o-2024-11-20")
    assert first is not None and (first.input, first.output) == (5_000_000, 15_000_000)
    assert usual == load_shipped_prices()["gpt-4o"]
    for model in ("gpt-4o-2099-01-01", "gpt-4o-latest"):
        unknown = find_price(model)
        assert unknown is not None and unknown.worst(1000, 1000) >= first.worst(1000, 1000)
    own = {"gpt-4o": load_shipped_prices()["gpt-5-nano"]}
    dated, plain = find_price("gpt-4o-2024-05-13", own), find_price("gpt-4o", own)
    assert dated is not None and dated.worst(1000, 1000) >= first.worst(1000, 1000)
    assert plain == own["gpt-4o"]


@pytest.mark.parametrize("model", ["", "gpt", "gpt-5-pro", "claude-opus-4-5-fast", "claude-opus-4-5-2025", "x/gpt-5"])
def test_a_model_that_nobody_listed_has_no_price(model: str) -> None:
    assert find_price(model) is None


def test_a_call_costs_what_the_vendor_lists() -> None:
    sonnet = find_price("claude-sonnet-5")
    assert sonnet is not None
    assert sonnet.of(TokenCounts(input=MILLION)) == 2_000_000
    assert sonnet.of(TokenCounts(output=MILLION)) == 10_000_000
    assert sonnet.of(TokenCounts(cache_read=MILLION)) == 200_000
    assert sonnet.of(TokenCounts(cache_write=MILLION)) == 2_500_000
    assert sonnet.of(TokenCounts(cache_write=MILLION), written_long=MILLION) == 4_000_000
    assert sonnet.of(TokenCounts(cache_read=1)) == 1  # a begun millionth counts whole
    assert sonnet.of(TokenCounts()) == 0


def test_a_long_question_costs_more_where_the_vendor_says_so() -> None:
    sonnet = find_price("claude-sonnet-4-5")
    assert sonnet is not None
    assert sonnet.of(TokenCounts(input=200_000, output=1_000)) == 600_000 + 15_000
    assert sonnet.of(TokenCounts(input=200_000, cache_read=1, output=1_000)) == 1_200_000 + 1 + 22_500
    assert (sonnet.output_beyond(200_000), sonnet.output_beyond(200_001)) == (15_000_000, 22_500_000)


def test_sound_costs_by_the_minute_and_a_begun_second_counts_whole() -> None:
    whisper = find_price("whisper-1")
    assert whisper is not None
    assert (whisper.of_sound(60), whisper.of_sound(0.1), whisper.of_sound(61)) == (6_000, 100, 6_100)


TOKENS = st.integers(0, 400_000)


@given(st.sampled_from(sorted(load_shipped_prices())), TOKENS, TOKENS, TOKENS, TOKENS, TOKENS)
def test_no_call_costs_more_than_its_worst(
    model: str, plain: int, found: int, written: int, kept: int, answer: int
) -> None:
    usage = TokenCounts(plain, answer, found, written)
    assert load_shipped_prices()[model].of(usage, kept) <= load_shipped_prices()[model].worst(
        plain + found + written, answer
    )


def test_the_operators_own_prices_add_to_the_list_and_win(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text('["llama:70b"]\ninput = 0\noutput = 0\n[gpt-5]\ninput = 1\noutput = 2.5\n')
    own = load_own_prices(Home(tmp_path), Config({FILE.name: "mine.toml"}))

    llama, mine, theirs = (
        find_price("llama:70b", own),
        find_price("gpt-5-2025-08-07", own),
        find_price("gpt-5-mini", own),
    )

    assert llama is not None and llama.worst(10**6, 10**6) == 0
    assert mine is not None and (mine.input, mine.output, mine.cache_read) == (1_000_000, 2_500_000, 1_000_000)
    assert theirs == load_shipped_prices()["gpt-5-mini"]
    assert load_own_prices(Home(tmp_path), Config()) == {}


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[m]\ninput = 1\n", "output"),
        ("[m]\ninput = -1\noutput = 1\n", "negative"),
        ("[m]\ninput = nan\noutput = 1\n", "not an amount"),
        ("[m]\ninput = 1\noutput = 1\nprice = 2\n", "price"),
        ("[m]\ninput = 1\noutput = 1\nlong_output = 50\n", "100 percent"),
        ("m = 1\n", "m: "),
        ("[m\n", "not valid TOML"),
    ],
)
def test_a_mistake_in_the_operators_file_is_named(tmp_path: Path, text: str, complaint: str) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(text)
    with pytest.raises(SetupError, match=complaint) as error:
        read_prices(path)
    assert str(path) in str(error.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match=r"nowhere\.toml cannot be read"):
        load_own_prices(Home(tmp_path), Config({FILE.name: "nowhere.toml"}))


CONFIG = Config({"prices.file": "prices.toml"})


def write(path: Path, text: str, at: int) -> None:
    path.write_text(text)
    os.utime(path, (at, at))


def test_a_price_that_is_added_by_hand_holds_at_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "prices.toml"
    write(file, "[a]\ninput = 1\noutput = 2\n", 1000)
    prices = PriceList(Home(tmp_path), CONFIG)
    assert prices("a") is not None and prices("b") is None
    write(file, "[b]\ninput = 1\noutput = 2\n", 2000)
    assert prices("a") is None and prices("b") is not None
    write(file, "[b\n", 3000)
    assert prices("b") is not None and "those of before hold" in caplog.text
    file.unlink()
    assert prices("b") is not None


def test_a_mistake_stops_the_start(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="prices"):
        PriceList(Home(tmp_path), CONFIG)


def test_without_a_file_there_is_the_built_in_list_until_one_is_named(tmp_path: Path) -> None:
    prices = PriceList(Home(tmp_path), Config({}))
    write_price(tmp_path / "prices.toml", "mine", parse_price("0"))
    assert prices("gpt-5") is not None and prices("mine") is None
    prices.move(CONFIG)
    assert prices("mine") == parse_price("0")


@pytest.mark.parametrize(
    ("text", "numbers"), [("0", (0, 0)), ("0.5/1.5", (500_000, 1_500_000)), ("$1/2", (10**6, 2 * 10**6))]
)
def test_a_price_is_written_as_two_amounts_or_nothing(text: str, numbers: tuple[int, int]) -> None:
    assert (parse_price(text).input, parse_price(text).output) == numbers


@pytest.mark.parametrize("text", ["1", "x", "1/", "/1", "-1/2", "1/2/3", "free"])
def test_what_is_no_price_is_said(text: str) -> None:
    with pytest.raises(Invalid, match="price"):
        parse_price(text)


def test_what_is_in_the_file_stays_there(tmp_path: Path) -> None:
    file = tmp_path / "prices.toml"
    file.write_text('# mine\n[a]\ninput = 1  # dear\noutput = 2\ncache_read = 0.1\n\n["b:7"]\ninput = 1\noutput = 2')
    write_price(file, "b:7", parse_price("0"))
    write_price(file, "a", parse_price("0.5/0.000001"))
    write_price(file, "c/d", parse_price("3/4"))

    assert file.read_text() == (
        '# mine\n[a]\ninput = 0.5  # dear\noutput = 0.000001\ncache_read = 0.1\n\n["b:7"]\ninput = 0\noutput = 0\n\n'
        '["c/d"]\ninput = 3\noutput = 4\n'
    )


@pytest.mark.parametrize("text", ["[a", "a = {input = 1, output = 2}\n", "a.input = 1\na.output = 1\n"])
def test_a_file_that_is_written_otherwise_is_left_alone(tmp_path: Path, text: str) -> None:
    file = tmp_path / "prices.toml"
    file.write_text(text)
    with pytest.raises(SetupError, match="prices"):
        write_price(file, "a", parse_price("5/6"))
    assert file.read_text() == text


def test_a_new_file_is_made(tmp_path: Path) -> None:
    write_price(tmp_path / "prices.toml", 'odd "name"', parse_price("1/2"))
    assert tomllib.loads((tmp_path / "prices.toml").read_text()) == {'odd "name"': {"input": 1, "output": 2}}


@pytest.mark.parametrize("model", sorted(load_shipped_prices()))
def test_every_listed_price_has_a_page_and_a_day(model: str) -> None:
    source = find_shipped_source(model)
    assert source.page.startswith("https://") and date.fromisoformat(source.checked)
    assert ("anthropic" in source.page) is model.startswith("claude-")
    assert ("google" in source.page) is model.startswith("gemini-")
