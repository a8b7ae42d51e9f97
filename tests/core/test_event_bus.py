"""The bells: who is told of a change, here and elsewhere."""

from gatepost.core.event_bus import Bell, EventBus


def test_a_change_is_told_to_the_listeners_of_its_instance_and_to_those_of_all() -> None:
    events, of_one, of_all = EventBus(), list[str](), list[str]()
    events.on_change(lambda instance, address: of_one.append(address), "web")
    events.on_change(lambda instance, address: of_all.append(address))

    events.change("web", "web:a")
    events.change("fake", "fake:b")

    assert of_one == ["web:a"] and of_all == ["web:a", "fake:b"]


def test_rooms_that_are_named_anew_take_the_place_of_those_before() -> None:
    events, told = EventBus(), list[tuple[str, str]]()

    def hear(instance: str, address: str) -> None:
        told.append((instance, address))

    events.set_rooms(hear, {("fake", "fake:a")})
    events.change("fake", "fake:a")
    events.set_rooms(hear, {("fake", "fake:b")})
    events.change("fake", "fake:a")
    events.change("fake", "fake:b")
    events.set_rooms(hear, set())
    events.change("fake", "fake:b")

    assert told == [("fake", "fake:a"), ("fake", "fake:b")]


def test_what_was_rung_elsewhere_is_told_here_and_not_passed_on() -> None:
    events, told, passed = EventBus(), list[str](), list[tuple[Bell, str]]()
    events.on_session(told.append)
    events.on_any(lambda bell, *what: passed.append((bell, *what)))

    events.receive(Bell.SESSION, "s1")
    events.session("s2")

    assert told == ["s1", "s2"] and passed == [(Bell.SESSION, "s2")]
