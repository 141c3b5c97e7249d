"""Who asks: the identity of a request by its bearer token or its browser session, and what it may do."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from fastapi.routing import APIRoute
from starlette.requests import Request

from handrail.errors import Code
from handrail.service.identities import Identity, Session
from handrail.service.inbox import Refusal
from handrail.words import noun

if TYPE_CHECKING:
    from handrail.service.service import Service

READERS = ("approver", "auditor", "admin")
EVERYBODY = ("caller", *READERS)
ANSWERERS = ("approver", "admin")
ROLES: dict[tuple[str, str], tuple[str, ...]] = {}  # by method and path: who may use a route; filled as they are made
KEY = "handrail.access"  # in a request's scope

Endpoint = Callable[..., Awaitable[Any]]


@noun
class Access:
    """What the guard found out about a request."""

    identity: Identity | None
    session: Session | None = None  # of a browser
    nonce: str = ""  # of the page that answers


def access_of(request: Request) -> Access:
    """Give what the guard found out."""
    found: Access = request.scope[KEY]
    return found


def identity_of(request: Request) -> Identity:
    """Give who asks; the route has made sure that somebody does."""
    identity = access_of(request).identity
    assert identity is not None
    return identity


def service_of(request: Request) -> Service:
    """Give the service behind a request."""
    found: Service = request.app.state.service
    return found


def sees_all(identity: Identity) -> bool:
    """Whether somebody may read what others did."""
    return identity.has(*READERS)


def own_only(identity: Identity) -> str | None:
    """Give the name whose runs alone somebody may read; None: all runs."""
    return None if sees_all(identity) else identity.name


class GuardedRoute(APIRoute):
    """A route that looks at the role before anything of the request is read."""

    def get_route_handler(self) -> Callable[[Request], Awaitable[Any]]:  # type: ignore[override]
        """Give the handler with the check before it."""
        handler = super().get_route_handler()
        roles = {method: ROLES.get((method, self.path), ()) for method in self.methods or ()}

        async def checked(request: Request) -> Any:
            if needed := roles[request.method]:
                need_role(request, needed)
            return await handler(request)

        return checked


def allow(router: Any, method: str, path: str, *roles: str, **how: Any) -> Callable[[Endpoint], Endpoint]:
    """Register a route that only these roles may use; none: everybody, also who is not known."""

    def register(endpoint: Endpoint) -> Endpoint:
        ROLES[method, f"{getattr(router, 'prefix', '')}{path}"] = roles
        target = getattr(router, "router", router)
        target.add_api_route(path, endpoint, methods=[method], route_class_override=GuardedRoute, **how)
        return endpoint

    return register


def need_role(request: Request, roles: tuple[str, ...]) -> None:
    """Refuse who is not known, or has none of these roles."""
    identity = access_of(request).identity
    if identity is None:
        raise Refusal(401, Code.POLICY_DENIED, "A bearer token or a login is needed.")
    if not identity.has(*roles):
        text = f"{identity.name} may not do this: it needs the role {' or '.join(roles)}."
        raise Refusal(403, Code.POLICY_DENIED, text)
