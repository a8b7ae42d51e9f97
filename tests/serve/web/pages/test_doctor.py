from typing import Any

from gatepost.serve.web.dashboard.view import Tone
from gatepost.serve.web.pages.doctor import make_summary, sort_findings


def test_the_summary_has_the_colour_of_the_worst_finding() -> None:
    ok, warn, fail = ({"level": level} for level in ("ok", "warn", "fail"))
    assert make_summary([ok, ok]).tone is Tone.GOOD
    assert make_summary([ok, warn]).text == "Nothing fails. 1 of 2 things need a look."
    assert make_summary([fail, warn]).tone is Tone.BAD


def test_what_is_not_well_comes_first_and_the_rest_keeps_its_order() -> None:
    found: list[dict[str, Any]] = [
        {"level": level, "subject": subject}
        for subject, level in zip("abcd", ("ok", "warn", "ok", "fail"), strict=True)
    ]
    assert [each["subject"] for each in sort_findings(found)] == ["d", "b", "a", "c"]
