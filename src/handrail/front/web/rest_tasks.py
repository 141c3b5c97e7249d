"""REST: tasks of the agent."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Header
from starlette.requests import Request

from handrail.front.web.access import ANSWERERS, EVERYBODY, allow, identity_of, service_of
from handrail.front.web.rest_calls import place_of
from handrail.front.web.rest_models import PROBLEMS, TaskBody, TextBody

router = APIRouter(prefix="/v1", responses=PROBLEMS, tags=["tasks"])
GIVERS = ("caller", "admin")


@allow(router, "POST", "/tasks", *GIVERS, status_code=201)
async def give(request: Request, body: TaskBody, idempotency_key: str | None = Header(None, max_length=200)) -> Any:
    """Give the agent a task; a worker takes it."""
    service, identity = service_of(request), identity_of(request)
    folder = place_of(request, body.workspace)
    task = service.tasks.give(identity, body.task, folder, body.queue, idempotency_key)
    service.poke()
    return service.tasks.show(task)


@allow(router, "GET", "/tasks", *EVERYBODY)
async def list_tasks(request: Request) -> dict[str, Any]:
    """List the tasks, newest first."""
    service, identity = service_of(request), identity_of(request)
    return {"tasks": [task.to_dict() for task in service.tasks.newest(identity)]}


@allow(router, "GET", "/tasks/{task_id}", *EVERYBODY)
async def show_task(request: Request, task_id: str) -> dict[str, Any]:
    """Show a task: what was asked, how far it is, its questions, its answer."""
    service = service_of(request)
    return service.tasks.show(service.tasks.find(identity_of(request), task_id))


@allow(router, "POST", "/tasks/{task_id}/cancel", "caller", *ANSWERERS)
async def cancel(request: Request, task_id: str) -> dict[str, Any]:
    """Cancel a task; one that runs is stopped by its worker."""
    service = service_of(request)
    return service.tasks.show(service.tasks.cancel(identity_of(request), task_id))


@allow(router, "POST", "/tasks/{task_id}/answer", *ANSWERERS)
async def answer(request: Request, task_id: str, body: TextBody) -> dict[str, Any]:
    """Answer what a task asks. An approval is not answered here."""
    service = service_of(request)
    return service.tasks.show(service.tasks.answer(identity_of(request), task_id, body.text))


@allow(router, "POST", "/tasks/{task_id}/message", "caller", *ANSWERERS)
async def message(request: Request, task_id: str, body: TextBody) -> dict[str, Any]:
    """Say something to a task that runs; it reads it before its next turn, and it approves nothing."""
    service = service_of(request)
    return service.tasks.show(service.tasks.message(identity_of(request), task_id, body.text))
