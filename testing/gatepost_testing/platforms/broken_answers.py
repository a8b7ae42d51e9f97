"""Ends the connection of one request without an answer, as a proxy or a network does."""

from typing import Any

from starlette.responses import Response

from gatepost_testing.platforms.base import EmulatedPlatform


def abort_connection(platform: EmulatedPlatform, scope: Any) -> Response:
    """The response is for the framework alone: nobody gets it."""
    for connection in platform.list_connections():
        if getattr(connection, "scope", None) is scope:
            connection.transport.abort()
    return Response()
