"""The operator's own prices while the gateway runs, and how one is put into their file."""

import os
import tomllib
from pathlib import Path

import pytest

from gatepost.core.errors import Invalid, SetupError
from gatepost.core.home import Home
from gatepost.core.settings import Config
from gatepost.egress.price_list import PriceList, parse_price, write_price

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
