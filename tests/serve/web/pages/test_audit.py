from gatepost.serve.web.pages.audit import show_details


def test_details_are_read_as_facts_and_hashes_by_their_beginnings() -> None:
    details = {"args": {"content": {"length": 124, "sha256": "ab" * 32}}, "call": "c-1", "why": ""}

    assert show_details({"details": details}) == "args.content.length 124 · args.content.sha256 abababab… · call c-1"


def test_details_that_are_a_sentence_stay_one() -> None:
    assert show_details({"details": "it was refused"}) == "it was refused"
    assert show_details({"details": {}}) is None
