from gatepost.core import ids


def test_ids_tell_their_kind_sort_by_age_and_do_not_repeat() -> None:
    made = [ids.new("s") for _ in range(1000)]

    assert len(set(made)) == 1000
    assert all(each.startswith("s-") and len(each) == 22 for each in made)
    assert [each[2:13] for each in made] == sorted(each[2:13] for each in made)


def test_ids_that_are_made_together_are_of_the_alphabet_and_do_not_repeat() -> None:
    made = ids.new_many("s", 1000)

    assert len(set(made)) == 1000
    assert len({each[:13] for each in made}) == 1
    assert all(len(each) == 22 for each in made)
    assert set("".join(each[13:] for each in made)) == set(ids.ALPHABET)
    assert ids.new_many("s", 0) == []


def test_a_token_may_stand_in_a_url() -> None:
    token = ids.token()

    assert len(token) >= 43 and token.replace("-", "").replace("_", "").isalnum()
