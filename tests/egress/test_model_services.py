"""The model services that are known: every one can be connected as it is written."""

from pathlib import Path
from urllib.parse import urlsplit

import pytest

from gatepost.core.home import Home
from gatepost.egress.model_services import ModelService, find_services, list_services
from gatepost.egress.upstream import parse_base_url
from gatepost.serve.control.connectable_agents import list_agents


@pytest.mark.parametrize("service", list_services().values(), ids=lambda each: each.name)
def test_a_service_is_asked_where_its_own_pages_say(service: ModelService) -> None:
    assert parse_base_url("it", service.base_url, default=False).url == service.base_url
    assert urlsplit(service.base_url).scheme == urlsplit(service.keys).scheme == "https"
    assert service.title


def test_no_service_has_the_name_of_something_else(tmp_path: Path) -> None:
    assert not list_services().keys() & {*list_agents(Home(tmp_path)), "local", "services"}


def test_services_are_found_by_a_word_of_their_name_title_or_address() -> None:
    assert [each.name for each in find_services("KIMI")] == ["moonshot"]
    assert [each.name for each in find_services("googleapis")] == ["google"]
    assert len(find_services("")) == len(list_services()) and find_services("zzz") == []


@pytest.mark.parametrize(
    ("given", "asked"),
    [
        ("http://127.0.0.1:11434", "http://127.0.0.1:11434/v1"),
        ("https://host/api/", "https://host/api/v1"),
        ("https://host/v1/", "https://host/v1"),
        ("https://host/v1beta/openai", "https://host/v1beta/openai"),
        ("https://host/very/view", "https://host/very/view/v1"),
    ],
)
def test_a_version_in_the_path_is_kept_and_v1_is_added_otherwise(given: str, asked: str) -> None:
    assert parse_base_url("it", given, default=False).url == asked
