"""The rules that emulators enforce: each has a source, and a wrong call that is refused as the platform refuses it."""

import re
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from gatepost.testing.platforms import slack_rules, telegram_rules
from gatepost.testing.platforms.base import EmulatedPlatform
from gatepost.testing.platforms.rules import PlatformRule
from gatepost.testing.platforms.slack import BOT_TOKEN, SlackPlatform
from gatepost.testing.platforms.telegram import TOKEN, TelegramPlatform
from gatepost.testing.waiting import PATIENCE_S

CASES = [(TelegramPlatform, telegram_rules.RULES), (SlackPlatform, slack_rules.RULES)]
Answer = tuple[int, dict[str, Any]]


class Caller:
    """Makes a call as a bot would, with what stands for the chat and the messages in it."""

    def __init__(self, platform: EmulatedPlatform) -> None:
        self._platform = platform
        self._client = httpx2.Client(trust_env=False, timeout=PATIENCE_S)
        theirs = platform.send("their words")
        if isinstance(platform, TelegramPlatform):
            chat: Any = platform.find_chat("team")["id"]
            own: Any = self.call("sendMessage", {"chat_id": chat, "text": "own words"})[1]["result"]["message_id"]
            self._names = {"$team": chat, "$own": own, "$theirs": int(theirs)}
            return
        assert isinstance(platform, SlackPlatform)
        chat = platform.find_channel("team")
        own = self.call("chat.postMessage", {"channel": chat, "text": "own words"})[1]["ts"]
        self._names = {"$team": chat, "$own": own, "$theirs": theirs}

    def call(self, method: str, given: dict[str, Any]) -> Answer:
        if isinstance(self._platform, SlackPlatform):
            headers = {"authorization": f"Bearer {BOT_TOKEN}"}
            answer = self._client.post(f"{self._platform.url}/api/{method}", json=given, headers=headers)
            return answer.status_code, answer.json()
        files = {name: ("a.txt", b"x") for name, value in given.items() if value == "$file"}
        url = f"{self._platform.url}/bot{TOKEN}/{method}"
        if files:
            answer = self._client.post(
                url, data={each: given[each] for each in given if each not in files}, files=files
            )
        else:
            answer = self._client.post(url, json=given)
        return answer.status_code, answer.json()

    def break_rule(self, rule: PlatformRule) -> Answer:
        method, given = rule.call
        return self.call(method, {name: self._put_in(value) for name, value in given.items()})

    def _put_in(self, value: Any) -> Any:
        return self._names.get(value, value) if isinstance(value, str) else value

    def close(self) -> None:
        self._client.close()


@pytest.fixture(params=CASES, ids=lambda case: case[0].kind)
def case(request: pytest.FixtureRequest) -> Iterator[tuple[Caller, tuple[PlatformRule, ...]]]:
    make, rules = request.param
    with make() as platform:
        caller = Caller(platform)
        yield caller, rules
        caller.close()


def test_every_rule_has_a_wrong_call_that_is_refused_in_the_platforms_own_words(
    case: tuple[Caller, tuple[PlatformRule, ...]],
) -> None:
    caller, rules = case
    for rule in rules:
        status, answer = caller.break_rule(rule)
        said = answer.get("description") or answer.get("error")
        assert (rule.name, status, answer["ok"], said) == (rule.name, rule.status, False, rule.refusal)


def test_every_rule_names_its_page_and_the_day_on_which_somebody_compared_it() -> None:
    for _, rules in CASES:
        assert all(each.source.startswith("https://") for each in rules)
        assert all(re.fullmatch(r"(20\d\d-\d\d-\d\d)?", each.read_on) for each in rules)
