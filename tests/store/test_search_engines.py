"""Both engines find the same: every script, every operator, and what is at the limits of a tsvector."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gatepost.core.errors import Invalid
from gatepost.messages.inbound import Direction
from gatepost.store import search
from gatepost.store.engine.full_text import LOOKED_AT
from gatepost.store.engine.sqlite_db import SqliteDb, connect
from gatepost.store.messages import inbox, messages
from gatepost.store.messages.inbox import InboxState
from gatepost.store.messages.messages import NewMessage
from gatepost.store.port import Db
from gatepost.store.search import SearchQuery, Subtree
from gatepost_testing.empty_database import EmptyDatabase

ROOT = Subtree("root", everything=True)
WORDS = (
    *(
        "a",
        "b",
        "c",
        "ab",
        "Café",
        "cafe",
        "e\u0301te",
        "été",
        "naïve",
        "Straße",
        "STRASSE",
        "straße",
        "Ωμέγα",
        "ωμεγα",
    ),
    *(
        "Привет",
        "привёт",
        "日本",
        "日",
        "本語",
        "東京タワー",
        "서울에서",
        "สวัสดี",
        "😀",
        "1",
        "12",
        "1.5",
        "it's",
        "foo_bar",
    ),
    *("http://x.y/z?q=1", "İ", "ı", "ﬁ", "ſ", "𐐀", "\ue000", "ｱｲｳ", "१२", "_", "...", "\\", "x" * 3000, "&|!", ":*"),
)
TEXTS = (
    *WORDS,
    *(" ".join(WORDS[at : at + 6]) for at in range(0, len(WORDS), 2)),
    *("a b c", "c b a", "a b a c ab b", "ab a b", "b a ab c a b b a", "a ab", "b c", "a c b ab ab c", "a_b-c", "A,B;C"),
    *("a a a b", "b ab ab a c", "c a b ab", "", "日本語のa b", "会議a"),
    "a b " * 600 + "c ab",  # a lexeme has 255 places
    "日" * (LOOKED_AT - 2) + "本語",
    "b " + "Ω" * 1200 + " a",
    "b " + "Ω" * 1200 + "c a",
)
QUERIES = (
    *("NEAR(a b)", "NEAR(a b, 0)", "NEAR(b a c, 1)", 'NEAR("a b" c, 1)', 'NEAR("a b" b, 0)', "NEAR(a a, 3)", "NEAR(a)"),
    *(
        'NEAR("a b" c ab, 2)',
        "NEAR(a* b, 99999)",
        "a NOT NEAR(b c, 1)",
        "a NOT (b NOT NEAR(b c, 1))",
        "NEAR(a b* ab, 0)",
    ),
    *("^a", "^ a + b", "^ab*", "a* + b", "a + b*", 'a + "..." *', '"a b"*', "a OR b AND c NOT ab", "(a OR b) AND c"),
    *(
        "a b NOT c",
        '"..." a',
        'a AND "..."',
        'a NOT "..."',
        '"..." OR a',
        'NEAR("..." a)',
        "- text : a",
        "{text} : a b",
    ),
    *(
        "text : (a OR b)",
        "- text : (a) OR b",
        "TEXT : a",
        "- text : a b",
        '- text : "" a',
        '"c ab"',
        '"b c ab"',
        '"本語"',
    ),
    *('"日本語"', "Ω*", "Ω" * 600 + "*", "x*", '"a ""b"""', "\x1aa", "会議a", "(((a)))", '"\\"', "ABC OR AB"),
    *(
        "NEAR(a b c ab Ω 日, 3)",
        "straße",
        "STRASSE",
        "cafe",
        "ete",
        "İ",
        "i",
        "ı",
        "ſ",
        "s",
        "ﬁ",
        "fi",
        "привет",
        "привёт",
    ),
)


def fill(db: Db) -> None:
    for number, text in enumerate(TEXTS):
        new = NewMessage(
            instance="fake",
            address=f"fake:room/{number % 3}",
            direction=Direction.IN,
            sender=f"fake:user/{number % 2}",
            text=text,
            at=number,
            platform_id=str(number),
        )
        message_id = messages.accept(db, new, number)
        assert message_id == number + 1
        inbox.refuse(db, message_id, "", "guest", "", number, state=InboxState.OBSERVED)
    while search.index(db):
        pass


Engines = tuple[Db, Db]


@pytest.fixture(scope="module")
def engines(empty_store: Path, tmp_path_factory: pytest.TempPathFactory, database: EmptyDatabase) -> Iterator[Engines]:
    from gatepost.store.postgres.connection import open_connection
    from gatepost.store.postgres.postgres_db import PostgresDb

    path = tmp_path_factory.mktemp("engines") / "gatepost.db"
    path.write_bytes(empty_store.read_bytes())
    database.reset()
    connection = connect(path)
    with open_connection(database.url) as opened:
        both = SqliteDb(connection), PostgresDb(opened.pgconn)
        for db in both:
            fill(db)
        yield both
    connection.close()


def find(db: Db, query: str, **wanted: object) -> object:
    try:
        found = search.find(db, SearchQuery(query=query, part=ROOT, limit=100, **wanted))  # type: ignore[arg-type]
    except Invalid as error:
        return str(error)
    return [(hit.id, hit.snippet, hit.rank) for hit in found]


def check_equal(engines: Engines, query: str, **wanted: object) -> object:
    on_sqlite, on_postgres = (find(db, query, **wanted) for db in engines)
    assert on_postgres == on_sqlite
    return on_sqlite


@pytest.mark.slow
def test_words_of_every_script_are_found_alike(engines: Engines) -> None:
    for word in WORDS:
        quoted = '"' + word[:900].replace('"', '""') + '"'
        for query in (quoted, quoted + "*"):
            check_equal(engines, query)
    assert check_equal(engines, "cafe") and check_equal(engines, '"1.5"') and check_equal(engines, "日")


@pytest.mark.parametrize("query", QUERIES)
def test_every_operator_finds_the_same(engines: Engines, query: str) -> None:
    check_equal(engines, query)
    check_equal(engines, query, room="fake:room/1", sender="fake:user/0")


@pytest.mark.parametrize(
    "query", ['"', "a OR", "(a", "*", "marks : x", "NEAR(a", "NEAR(a b, x)", "a ^ ^", " ", "x" * 1001]
)
def test_a_malformed_query_gets_the_same_answer(engines: Engines, query: str) -> None:
    assert isinstance(check_equal(engines, query), str)


@pytest.mark.parametrize(
    "query", ["NEAR(a b, 5000)", f"NEAR({' '.join('abcdefghijklmnop')})", 'NEAR(a b "c d" e f g, 9)']
)
def test_a_near_of_too_many_ways_is_refused_alike(engines: Engines, query: str) -> None:
    assert "NEAR" in str(check_equal(engines, query))


def test_a_mark_is_no_word_of_the_text(engines: Engines) -> None:
    mark = search.make_mark("r", "fake", "fake:room/1")  # type: ignore[attr-defined]
    assert check_equal(engines, mark) == [] and check_equal(engines, f"{mark[:4]}*") == []


_word = st.sampled_from([*WORDS[:4], *WORDS[:4], *WORDS]).map(lambda word: '"' + word[:300].replace('"', '""') + '"')
_phrase = st.builds(
    lambda words, star: " + ".join(words) + star,
    st.lists(_word, min_size=1, max_size=3),
    st.sampled_from(["", "", "*"]),
)
_near = st.builds(
    lambda phrases, distance: f"NEAR({' '.join(phrases)}, {distance})",
    st.lists(_phrase, min_size=1, max_size=3),
    st.integers(0, 4),
)
_operand = st.one_of(_phrase, _phrase, _near, _phrase.map("^ {}".format), _phrase.map("- text : {}".format))
_query = st.recursive(
    st.lists(_operand, min_size=1, max_size=3).map(" ".join),
    lambda inner: st.builds(
        lambda left, operator, right: f"({left} {operator} {right})",
        inner,
        st.sampled_from(["AND", "OR", "NOT"]),
        inner,
    ),
    max_leaves=5,
)


@pytest.mark.slow
@given(query=_query)
@settings(
    max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
def test_any_query_finds_the_same(engines: Engines, query: str) -> None:
    check_equal(engines, query)
