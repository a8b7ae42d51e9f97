from gatepost.serve.health.findings import Finding
from gatepost.serve.web.dashboard.view import Tone
from gatepost.serve.web.pages.gateway.doctor import make_summary, sort_findings


def test_the_summary_has_the_colour_of_the_worst_finding() -> None:
    ok, warn, fail = Finding("ok", "a", ""), Finding("warn", "b", ""), Finding("fail", "c", "")
    assert make_summary([ok, ok]).tone is Tone.GOOD
    assert make_summary([ok, warn]).text == "Nothing fails. 1 of 2 things need a look."
    assert make_summary([fail, warn]).tone is Tone.BAD


def test_what_is_not_well_comes_first_and_the_rest_keeps_its_order() -> None:
    found = [Finding("ok", "a", ""), Finding("warn", "b", ""), Finding("ok", "c", ""), Finding("fail", "d", "")]
    assert [each.subject for each in sort_findings(found)] == ["d", "b", "a", "c"]
