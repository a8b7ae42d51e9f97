"""Six entries beside the chat, each with its pages as tabs; nobody sees what they may not open."""

from gatepost.serve.web.dashboard.contract import PAGES, Page, Section
from gatepost.serve.web.dashboard.sidebar import get_heading, make_menu, make_tabs


def list_pages() -> list[Page]:
    return sorted((each for _, each in PAGES.items() if each.listed), key=lambda each: (each.order, each.title))


def find(path: str) -> Page:
    return next(each for _, each in PAGES.items() if each.path == path)


def test_an_owner_has_one_entry_for_each_section_in_their_order() -> None:
    menu = make_menu(list_pages(), find("/tasks"), waiting=2)
    assert [each.label for each in menu] == ["Agents", "People", "Channels", "Activity", "Costs", "System"]
    assert [(each.label, each.waiting) for each in menu if each.is_current or each.waiting] == [("Agents", 2)]
    assert menu[0].href == "/dashboard/" and menu[-1].href == "/dashboard/doctor"


def test_whoever_may_see_one_page_of_a_section_is_led_there() -> None:
    menu = make_menu([find("/settings"), find("/costs")], None, waiting=0)
    assert [(each.label, each.href) for each in menu] == [
        ("Costs", "/dashboard/costs"),
        ("System", "/dashboard/settings"),
    ]


def test_a_page_of_the_menu_has_the_pages_of_its_section_as_tabs_and_a_single_one_has_none() -> None:
    shown = list_pages()
    tabs = make_tabs(shown, find("/people"))
    assert [(each.label, each.is_current) for each in tabs] == [
        ("People", True),
        ("Invite", False),
        ("Rights", False),
        ("Sign-ins", False),
    ]
    assert make_tabs(shown, find("/costs")) == make_tabs(shown, find("/people/{id}")) == make_tabs(shown, None) == ()


def test_where_the_menu_leads_the_heading_is_its_own_word() -> None:
    shown = list_pages()
    assert get_heading(shown, find("/")) == Section.AGENTS
    assert get_heading(shown, find("/tasks")) == "Tasks"
