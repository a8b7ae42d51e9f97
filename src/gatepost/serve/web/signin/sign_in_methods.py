"""The sign-in methods that are on: their routes, and what the sign-in page is told of them."""

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from gatepost.core.registry import Registry, load_package
from gatepost.core.settings import Config
from gatepost.serve.web.signin.contract import PREFIX, SIGN_IN_METHODS, SignInDeps, SignInMethod


def list_methods(config: Config, registry: Registry[SignInMethod] = SIGN_IN_METHODS) -> list[SignInMethod]:
    """Those that are on, in the order of their buttons."""
    load_package("gatepost.serve.web.signin")
    found = [each for _, each in registry.items() if each.is_on(config)]
    return sorted(found, key=lambda each: (each.order, each.name))


def list_missing_methods(config: Config, registry: Registry[SignInMethod] = SIGN_IN_METHODS) -> list[SignInMethod]:
    """Those that the settings ask for, and whose extra is not installed."""
    load_package("gatepost.serve.web.signin")
    return [each for _, each in registry.items() if each.wanted(config) and not each.is_installed]


def describe_missing(method: SignInMethod) -> str:
    return f"signing in by {method.name} is on, and nobody can: its extra is not installed"


def list_routes(deps: SignInDeps, registry: Registry[SignInMethod] = SIGN_IN_METHODS) -> list[Route]:
    enabled = list_methods(deps.config, registry)

    async def show(request: Request) -> Response:
        labels = [(each, each.offer(request, deps.config) if each.offer else each.label) for each in enabled]
        shown = [
            {"name": each.name, "label": label, "href": each.href, "script": each.script}
            for each, label in labels
            if label
        ]
        return JSONResponse({"ways": shown})

    routes = [Route(f"{PREFIX}/ways", show, methods=["GET"])]
    return [*routes, *(route for each in enabled for route in each.make(deps).routes())]
