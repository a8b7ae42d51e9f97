"""A table by its struct."""

from enum import StrEnum
from typing import Any

import pytest
from msgspec import Struct

from gatepost.store.engine.table import Table
from gatepost.store.port import Db


class Size(StrEnum):
    SMALL = "small"
    LARGE = "large"


class NewPet(Struct, frozen=True):
    name: str
    size: Size
    tame: bool = False


class Pet(NewPet, frozen=True):
    toys: tuple[str, ...] = ()
    facts: dict[str, Any] = {}
    id: int = 0


PETS = Table("pets", Pet)


@pytest.fixture
def pets(db: Db) -> Db:
    db.define(
        "CREATE TEMP TABLE pets (id {id}, name {text} NOT NULL UNIQUE, size {text} NOT NULL,"
        " tame {int} NOT NULL DEFAULT 0,"
        " toys {text} NOT NULL DEFAULT '[]', facts {text} NOT NULL DEFAULT '{{}}', hidden {int}) {strict}"
    )
    return db


def test_a_row_is_parsed_by_the_types_of_its_fields(pets: Db) -> None:
    pet = PETS.put(pets, name="Rex", size="large", tame=1, toys='["ball"]', facts='{"legs": 4}', hidden=7)

    assert pet == Pet("Rex", Size.LARGE, True, ("ball",), {"legs": 4}, 1)
    assert pet.size is Size.LARGE and pet.tame is True
    assert PETS.get(pets, "WHERE name = ?", "Rex") == pet
    assert PETS.get(pets, "WHERE name = ?", "Tom") is None


def test_a_value_that_is_none_of_its_set_is_an_error(pets: Db) -> None:
    PETS.insert(pets, name="Rex", size="huge")
    with pytest.raises(KeyError, match="huge"):
        PETS.list(pets, "")


def test_a_struct_is_inserted_by_its_fields_and_a_conflict_is_settled_as_said(pets: Db) -> None:
    once = "ON CONFLICT (name) DO NOTHING RETURNING id"
    assert PETS.insert(pets, once, NewPet("Tom", Size.SMALL), hidden=1) == (1,)
    assert PETS.insert(pets, once, NewPet("Tom", Size.LARGE), hidden=1) is None
    changed = PETS.put(pets, "ON CONFLICT (name) DO UPDATE SET size = excluded.size", NewPet("Tom", Size.LARGE))
    assert (changed.id, changed.size) == (1, Size.LARGE)


def test_many_rows_have_their_own_values_and_those_that_all_of_them_have(pets: Db) -> None:
    names = [(f"Tom {number}",) for number in range(120)]
    once = "ON CONFLICT (name) DO NOTHING"
    assert PETS.add_rows(pets, once, ("name",), names[:70], size=Size.SMALL, hidden=7) == 70
    added = PETS.insert_rows(pets, f"{once} RETURNING name", ("name",), names, size=Size.LARGE, hidden=8)
    assert sorted(added) == sorted(names[70:])
    rows = pets.rows("SELECT name, size, hidden FROM pets ORDER BY id")
    assert [row[0] for row in rows] == [each for (each,) in names]
    assert {row[1:] for row in rows[:70]} == {("small", 7)} and {row[1:] for row in rows[70:]} == {("large", 8)}


def test_the_columns_follow_the_fields_also_under_another_name(pets: Db) -> None:
    assert PETS.columns == "name, size, tame, toys, facts, id"
    PETS.insert(pets, "", NewPet("Tom", Size.SMALL))
    PETS.insert(pets, "", NewPet("Rex", Size.LARGE))
    rows = pets.rows(f"SELECT {PETS.columns_of('p')} FROM pets p JOIN pets q ON q.id = p.id ORDER BY p.name")
    assert [PETS.parse(row) for row in rows] == PETS.list(pets, "ORDER BY name")
