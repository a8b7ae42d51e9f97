from gatepost.serve.web.dashboard.view import Tone
from gatepost.serve.web.pages.doctor import is_trouble, make_summary


def test_the_summary_has_the_colour_of_the_worst_finding() -> None:
    ok, warn, fail = ({"level": level} for level in ("ok", "warn", "fail"))
    assert make_summary([ok, ok]).tone is Tone.GOOD
    assert make_summary([ok, warn]).text == "Nothing fails. 1 of 2 things need a look."
    assert make_summary([fail, warn]).tone is Tone.BAD
    assert [is_trouble(each) for each in (ok, warn, fail)] == [False, True, True]
