"""A caller for platforms with an HTTP API: the method of a rule is a verb and a path, its arguments are httpx2's."""

from abc import abstractmethod
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from tests.testing.platforms.callers import Refusal, RuleCaller


class HttpCaller(RuleCaller):
    """`headers` go along unless a rule has its own. The argument `large` is the size of a file that goes along."""

    base = ""  # before each path
    retry_header = "retry-after"
    headers: Mapping[str, str] = MappingProxyType({})

    def call(self, method: str, given: dict[str, Any]) -> Refusal:
        rest = dict(given)
        if large := rest.pop("large", 0):
            rest["files"] = {"file": ("large.bin", bytes(large), "application/octet-stream")}
        answer = self.ask(method, rest)
        assert answer.status_code != 429 or self.retry_header in answer.headers, "a limit without its header"
        return answer.status_code, self.read_refusal(answer)

    def ask(self, method: str, given: dict[str, Any]) -> Any:
        verb, path = method.split(" ", 1)
        headers = given.get("headers", self.headers)
        url = path if "://" in path else f"{self.platform.url}{self.base}{path}"
        return self.client.request(verb, url, **{**given, "headers": headers})

    @abstractmethod
    def read_refusal(self, answer: Any) -> str:
        """Return the platform's own words or code."""
