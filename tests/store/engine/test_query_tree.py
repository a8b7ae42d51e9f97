"""A query of FTS5 as a tree: how its words bind, what matches nothing, and how much NEAR may ask."""

import pytest

from gatepost.core.errors import Invalid
from gatepost.store.engine.query_tree import (
    DISTANCE,
    MOST_NEAR,
    Combined,
    NearPhrases,
    QueryNode,
    QueryOperator,
    list_near,
    parse_query,
)

MANY = 20_000  # more than Python's stack, if each took one of its frames


def show(node: QueryNode) -> str:
    """`(a AND b)`, with `a+b` for a phrase, `a*` for a beginning, `^` for the first, `~3` for NEAR, `-` for nothing."""
    if isinstance(node, Combined):
        return f"({f' {node.operator} '.join(map(show, node.parts))})"
    words = ["+".join(f"{each.word}{'*' * each.prefix}" for each in phrase) for phrase in node.phrases]
    near = f"~{node.distance}" if len(words) > 1 else ""
    return f"{'^' * node.first}{','.join(words) or '-'}{near}"


@pytest.mark.parametrize(
    ("query", "tree"),
    [
        ("alpha", "alpha"),
        ("alpha beta", "(alpha AND beta)"),
        ("alpha OR beta gamma", "(alpha OR (beta AND gamma))"),
        ("alpha AND beta OR gamma", "((alpha AND beta) OR gamma)"),
        ("alpha OR beta AND gamma", "(alpha OR (beta AND gamma))"),
        ("alpha NOT beta NOT gamma", "((alpha NOT beta) NOT gamma)"),
        ("alpha NOT beta AND gamma", "((alpha NOT beta) AND gamma)"),
        ("alpha AND beta NOT gamma", "(alpha AND (beta NOT gamma))"),
        ("alpha NOT beta gamma", "(alpha NOT (beta AND gamma))"),
        ("(alpha OR beta) AND gamma", "((alpha OR beta) AND gamma)"),
        ("alpha NOT (beta OR gamma)", "(alpha NOT (beta OR gamma))"),
        ("alpha OR (beta OR gamma)", "(alpha OR beta OR gamma)"),
        ("((alpha))", "alpha"),
        ('"alpha beta"', "alpha+beta"),
        ("alpha + beta", "alpha+beta"),
        ('"alpha beta" + gam*', "alpha+beta+gam*"),
        ('"al" *', "al*"),
        ("^alpha", "^alpha"),
        ('"OR"', "or"),
        ("or", "or"),
        ('"say ""hi"""', "say+hi"),
        ("NEAR(alpha beta)", f"alpha,beta~{DISTANCE}"),
        ("NEAR(alpha beta, 3)", "alpha,beta~3"),
        ('NEAR("alpha beta" gamma, 2) delta', "(alpha+beta,gamma~2 AND delta)"),
        ('"NEAR"', "near"),
        ("text: alpha", "alpha"),
        ("{text} : alpha", "alpha"),
        ("TEXT:alpha", "alpha"),
    ],
)
def test_a_query_binds_as_in_fts5(query: str, tree: str) -> None:
    assert show(parse_query(query)) == tree


@pytest.mark.parametrize("query", ["other: alpha", "-text: alpha", "- {text} : alpha", "other: (alpha OR beta)"])
def test_what_is_looked_for_in_no_column_matches_nothing(query: str) -> None:
    assert all(not any(near.phrases) for near in list_near(parse_query(query)))


def test_what_is_looked_for_nowhere_is_not_left_out() -> None:
    """`alpha other: beta` asks for both, so nothing matches; the words alone would."""
    node = parse_query("alpha other: beta")
    assert isinstance(node, Combined) and node.operator is QueryOperator.AND
    assert [near.phrases for near in list_near(node)][1] == ((),)


def test_what_is_not_the_text_is_asked_for_in_it_if_it_is_excluded_elsewhere() -> None:
    assert show(parse_query("- other: alpha")) == "alpha"


def test_signs_alone_are_left_out_beside_words_and_match_nothing_by_themselves() -> None:
    assert show(parse_query('alpha "..." beta')) == "(alpha AND beta)"
    assert show(parse_query('"..."')) == "-"
    assert show(parse_query('alpha AND "..."')) == "(alpha AND -)"
    assert show(parse_query('NEAR(alpha "..." beta, 4)')) == "alpha,beta~4"


def test_a_star_belongs_to_the_last_word_of_its_string() -> None:
    assert show(parse_query('"alpha bet" *')) == "alpha+bet*"


def test_a_deep_query_needs_no_deep_stack() -> None:
    assert show(parse_query("(" * MANY + "alpha" + ")" * MANY)) == "alpha"


@pytest.mark.parametrize("operator", ["OR", "AND"])
def test_a_long_query_is_no_deep_one(operator: str) -> None:
    found = parse_query(f" {operator} ".join(["alpha"] * 500))
    assert isinstance(found, Combined) and len(found.parts) == 500


def test_a_near_of_too_many_words_is_refused_and_one_below_is_not() -> None:
    most = max(each for each in range(500) if near(each, 3).count_words() <= MOST_NEAR)
    assert parse_query(f"NEAR(alpha beta gamma, {most})")
    with pytest.raises(Invalid, match="too much of NEAR"):
        parse_query(f"NEAR(alpha beta gamma, {most + 1})")


def near(distance: int, many: int) -> NearPhrases:
    found = parse_query(f"NEAR({' '.join(['alpha'] * many)}, 1)")
    assert isinstance(found, NearPhrases)
    return NearPhrases(found.phrases, distance)


def test_the_nears_of_a_query_count_together_and_phrases_without_near_do_not() -> None:
    most = max(each for each in range(2000) if near(each, 2).count_words() <= MOST_NEAR)
    one = f"NEAR(alpha beta, {most})"
    assert parse_query(one) and parse_query(" OR ".join(["alpha"] * 500))
    with pytest.raises(Invalid, match="too much of NEAR"):
        parse_query(f"{one} OR {one}")


def test_a_near_that_reaches_everywhere_costs_its_words_alone() -> None:
    found = near(10**9, 3)
    assert found.is_everywhere and found.count_words() == 3
    assert not near(DISTANCE, 3).is_everywhere
    assert (near(1, 2).count_words(), near(1, 3).count_words()) == (12, 36)


def test_phrases_of_one_length_and_pairs_are_even() -> None:
    def is_even(query: str) -> bool:
        found = parse_query(query)
        assert isinstance(found, NearPhrases)
        return found.is_even

    assert is_even('NEAR("alpha beta" gamma)') and is_even("NEAR(alpha beta gamma)")
    assert not is_even('NEAR("alpha beta" gamma delta)')
