"""`gatepost up`: start the gateway. It imports little: a second `up` is refused at once."""

import gc

import click

from gatepost.core import home as homes
from gatepost.core.process import home_lock


@click.command()
@click.option("--listen", metavar="ADDRESS", help="The web address: host:port, :port, port, [::1]:port, unix:PATH.")
@click.option("--log-format", type=click.Choice(["auto", "json", "pretty"]), help="How stderr is written.")
@click.option("--unsafe", is_flag=True, help="Accept a PostgreSQL server with fsync=off. For tests.")
@click.option("--new-store", is_flag=True, help="Begin with an empty store in a home that has lost its own.")
@click.pass_obj
def up_command(home: str | None, listen: str | None, log_format: str | None, unsafe: bool, new_store: bool) -> int:
    """Start the gateway and serve until a signal ends it.

    The first SIGINT or SIGTERM stops it in order, within 10 seconds; a second one stops it now.
    """
    place = homes.find(home)
    place.check_length()
    place.prepare()
    chosen = {"listen": listen, "log.format": log_format, "store.unsafe": unsafe or None}
    with home_lock.acquire(place, role=home_lock.DAEMON) as held:
        gc.disable()  # until all is imported
        try:
            from gatepost import daemon  # heavy: who comes second is told so before it

            if new_store:
                daemon.make_new_store(place)
            return daemon.run(place, {name: value for name, value in chosen.items() if value is not None}, held)
        finally:
            gc.enable()
