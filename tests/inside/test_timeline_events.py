"""What a request is called outside: no answer to one can reach another."""

from gatepost.inside.acp.protocol import input_of, key_of
from gatepost.inside.providers.contract import PermissionRequest, PermissionRequestKind, Question
from gatepost.inside.timeline_events import LARGEST_EVENT, describe


def name_of(event: PermissionRequest | Question) -> str:
    return str(describe(event)[1]["id"])


def test_a_request_has_its_name_by_what_it_says_as_well() -> None:
    asked = PermissionRequest("0", "Bash", {"command": "ls"})
    others = [
        PermissionRequest("1", "Bash", {"command": "ls"}),
        PermissionRequest("0", "Bash", {"command": "rm"}),
        PermissionRequest("0", "Write", {"command": "ls"}),
        PermissionRequest("0", "Bash", {"command": "ls"}, PermissionRequestKind.PLAN),
        PermissionRequest("0", "Bash", {"command": "ls"}, follow_up="more"),
        PermissionRequest("0", "Bash", {"command": "ls"}, next_mode="more"),
        Question("0", "ls"),
    ]
    assert name_of(asked) == name_of(PermissionRequest("0", "Bash", {"command": "ls"}))
    assert len({name_of(each) for each in (asked, *others)}) == len(others) + 1


def test_names_that_begin_alike_and_inputs_that_are_cut_alike_are_told_apart() -> None:
    long, large = "x" * 500, "x" * LARGEST_EVENT
    names = {
        name_of(PermissionRequest(f"{long}{end}", "Bash", {"command": f"{large}{more}"}))
        for end in "ab"
        for more in "cd"
    }
    assert len(names) == 4 and all(len(each) <= 100 for each in names)
    told = describe(PermissionRequest("0", "Bash", {"command": large}))[1]
    assert told["cut"] and len(told["whole"]) == 64 and not describe(PermissionRequest("0", "Bash", {}))[1]["cut"]


def test_an_acp_request_without_a_name_or_with_one_that_is_taken_gets_a_new_one() -> None:
    assert key_of({"toolCallId": "c1"}, ()) == "c1"
    made = {key_of({}, ()), key_of({"toolCallId": ""}, ()), key_of({"toolCallId": "c1"}, {"c1"})}
    assert len(made) == 3 and not made & {"", "c1"}


def test_an_acp_request_without_input_says_what_else_it_knows() -> None:
    edit = {"title": "edit", "content": [{"type": "diff", "path": "/a"}], "locations": [], "rawInput": {}}
    assert input_of(edit) == {"content": [{"type": "diff", "path": "/a"}]}
    assert input_of({"rawInput": {"command": "ls"}, "content": ["x"]}) == {"command": "ls"}
