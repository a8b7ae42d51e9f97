"""Files of translations, as translators' programs write them."""

import pytest

from gatepost.core.errors import SetupError
from gatepost.core.languages.catalogue import read_po

FILE = r"""
# a comment
msgid ""
msgstr "Language: de\n"

#: somewhere:12
msgid "Say \"hello\"\n"
msgstr ""
"Sag "
"\"hallo\"\n"

#, fuzzy
msgid "Unsure"
msgstr "Unsicher"

msgid "Empty"
msgstr ""

msgctxt "door"
msgid "Open"
msgstr "Öffnen"
"""


def test_texts_over_several_lines_with_escapes_are_read_and_what_is_unsure_is_left_out() -> None:
    assert read_po(FILE, "x.po") == {'Say "hello"\n': 'Sag "hallo"\n', "Open": "Öffnen"}
    assert read_po(FILE.replace("\n", "\r\n"), "x.po") == read_po(FILE, "x.po")


def test_a_line_that_is_none_is_named() -> None:
    with pytest.raises(SetupError, match=r"x\.po: .*msgid without"):
        read_po('msgid without quotes\nmsgstr "x"', "x.po")
