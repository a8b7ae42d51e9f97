"""The pages of settings: what is shown, and that nothing is written before somebody has seen the change."""

from typing import Any

import pytest

from gatepost.core.records import replace
from gatepost.core.settings import SETTINGS
from gatepost.serve.control.arguments.settings import SettingChange, SettingOrigin, SettingShape, SettingView
from gatepost.serve.web.dashboard.view import DiffBlock, Disclosure, InputKind, Note, StepForm, TableBlock
from gatepost.serve.web.pages.settings import (
    OTHER,
    find_subject,
    is_shown,
    list_by_subject,
    make_change,
    make_preview,
    render_value,
)

SETTING = SettingView(
    name="x",
    value="a",
    in_use="a",
    is_pending=False,
    origin=SettingOrigin.FILE,
    default="",
    shape=SettingShape.TEXT,
    choices=(),
    variable="GATEPOST_X",
    help="",
)


def make_form(**changes: Any) -> StepForm:
    [form] = make_change(replace(SETTING, **changes), None)
    assert isinstance(form, StepForm)
    return form


def test_a_form_fits_the_shape_of_the_setting() -> None:
    assert make_form().inputs[0].kind is InputKind.TEXT
    assert make_form(choices=("a", "b")).inputs[0].choices == ("a", "b")
    flag = make_form(shape=SettingShape.FLAG, value=True).inputs[0]
    assert (flag.choices, flag.value) == (("true", "false"), "true")
    many = make_form(shape=SettingShape.LIST, value=("a", "b")).inputs[0]
    assert many.value == "a, b" and "commas" in many.description
    assert make_form().skip is not None and make_form(origin=SettingOrigin.DEFAULT).skip is None


def test_what_cannot_be_written_says_where_it_is_changed() -> None:
    for changes, said in (
        ({"shape": SettingShape.SECRET}, "channels"),
        ({"shape": SettingShape.TABLE}, "by hand"),
        ({"origin": SettingOrigin.ENVIRONMENT}, "GATEPOST_X"),
    ):
        [note] = make_change(replace(SETTING, **changes), None)
        assert isinstance(note, Note) and said in note.text


def test_a_change_is_a_diff_with_the_button_that_writes_it() -> None:
    change = SettingChange(name="x", diff=["-a", "+b"], is_written=False, needs_restart=True, text="Later.")
    diff, note = make_preview(change, "b")
    assert isinstance(diff, DiffBlock) and isinstance(note, Note) and note.action is not None
    assert (note.action.operation, note.action.args) == ("settings.set", {"name": "x", "value": "b"})
    [said] = make_preview(replace(change, diff=[]), "b")
    assert isinstance(said, Note) and said.action is None


def test_a_removal_has_the_button_that_removes() -> None:
    change = SettingChange(name="x", diff=["-a"], is_written=False, needs_restart=True, text="Later.")
    note = make_preview(change, None)[-1]
    assert isinstance(note, Note) and note.action is not None
    assert (note.action.operation, note.action.args) == ("settings.unset", {"name": "x"})


def test_settings_are_chosen_by_who_set_them_and_by_what_waits() -> None:
    one = replace(SETTING, origin=SettingOrigin.DEFAULT)
    assert is_shown(one, "") and not is_shown(one, "set") and not is_shown(one, "pending")
    assert is_shown(replace(SETTING, is_pending=True), "pending")
    assert (render_value(False), render_value(()), render_value(3)) == ("false", "", "3")


@pytest.mark.slow
async def test_looking_at_a_change_writes_nothing_and_the_button_does(site: Any) -> None:
    path = site.home.path / "gatepost.toml"
    async with site.signed_in() as browser:
        shown = await browser.get("/dashboard/settings/log.level?value=debug")
        assert '<span class="added">+level = &#34;debug&#34;</span>' in shown.text and not path.exists()
        wrong = await browser.get("/dashboard/settings/log.level?value=<b>loud")
        assert wrong.status_code == 200 and "is not one of" in wrong.text and "<b>loud" not in wrong.text
        done = await browser.post("/dashboard/do/settings.set", data={"name": "log.level", "value": "debug"})
        assert done.status_code == 200 and path.read_text() == '[log]\nlevel = "debug"\n'
        page = await browser.get("/dashboard/settings/log.level")
        assert 'href="?unset=1"' in page.text
        shown = await browser.get("/dashboard/settings/log.level?unset=1")
        assert '<span class="removed">-level = &#34;debug&#34;</span>' in shown.text and "settings.unset" in shown.text
        listed = await browser.get("/dashboard/settings?which=set")
        assert "log.level" in listed.text and "log.format" not in listed.text
        assert (await browser.get("/dashboard/settings/no.such")).status_code == 404
        done = await browser.post("/dashboard/do/settings.unset", data={"name": "log.level"})
        assert done.status_code == 200 and path.read_text() == "[log]\n"


def test_every_setting_stands_below_a_subject() -> None:
    assert [name for name in SETTINGS if find_subject(name) == OTHER] == []


def test_what_somebody_set_comes_first_and_each_subject_is_folded() -> None:
    usual = replace(SETTING, name="log.level", origin=SettingOrigin.DEFAULT)
    changed, *folded = list_by_subject([replace(SETTING, name="keep.days"), usual])
    assert isinstance(changed, TableBlock) and len(changed.rows) == 1
    assert [each.label for each in folded if isinstance(each, Disclosure)] == [
        "Keeping, backups and alerts (1)",
        "This machine (1)",
    ]
