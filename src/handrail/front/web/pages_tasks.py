"""Pages: tasks of the agent; giving one, watching it, answering it."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from handrail.errors import Code
from handrail.front.web.access import ANSWERERS, EVERYBODY, allow, identity_of, sees_all, service_of
from handrail.front.web.rendering import form_of, render
from handrail.front.web.rest_calls import place_of
from handrail.front.web.rest_tasks import GIVERS
from handrail.service.inbox import Refusal

router = APIRouter(include_in_schema=False)
MOST_TEXT = 100_000


@allow(router, "GET", "/tasks", *EVERYBODY)
async def tasks(request: Request) -> Response:
    """List the tasks."""
    return _tasks(request, "tasks.html")


@allow(router, "GET", "/tasks.json", *EVERYBODY)
async def tasks_json(request: Request) -> Response:
    """Give the tasks as JSON."""
    return _tasks(request, "tasks.html")


@allow(router, "GET", "/tasks/list", *EVERYBODY)
async def tasks_list(request: Request) -> Response:
    """Give the list alone, for a page that is open."""
    return _tasks(request, "_tasks_list.html")


def _tasks(request: Request, template: str) -> Response:
    service, identity = service_of(request), identity_of(request)
    places = list(service.runs.paths()) if sees_all(identity) else service.runs.names(identity)
    if sees_all(identity):
        places += service.index.workspaces()
    view = {
        "tasks": [task.to_dict() for task in service.tasks.newest(identity)],
        "places": places,
        "may_give": identity.has(*GIVERS),
    }
    return render(request, template, view)


@allow(router, "POST", "/tasks", *GIVERS)
async def give(request: Request) -> Response:
    """Give the agent the task of a form."""
    form = await form_of(request)
    text = form.get("task", "").strip()
    if not text or len(text) > MOST_TEXT:
        raise Refusal(422, Code.INVALID_ARGS, "Write what the agent should do.")
    service, identity = service_of(request), identity_of(request)
    folder = place_of(request, form.get("workspace", ""))
    task = service.tasks.give(identity, text, folder, form.get("queue", "")[:64])
    service.poke()
    return RedirectResponse(f"/tasks/{task.id}", 303)


@allow(router, "GET", "/tasks/{task_id}", *EVERYBODY)
async def show(request: Request, task_id: str) -> Response:
    """Show one task."""
    return _show(request, task_id.removesuffix(".json"), "task.html")


@allow(router, "GET", "/tasks/{task_id}/state", *EVERYBODY)
async def state(request: Request, task_id: str) -> Response:
    """Give how a task stands, for a page that is open."""
    return _show(request, task_id, "_task_state.html")


def _show(request: Request, task_id: str, template: str) -> Response:
    service, identity = service_of(request), identity_of(request)
    task = service.tasks.find(identity, task_id)
    view: dict[str, Any] = {
        "task": service.tasks.show(task),
        "ended": task.ended,
        "may_answer": identity.has(*ANSWERERS),
        "may_say": identity.has("caller", *ANSWERERS),
        "has_run": service.index.run(task.run_id) is not None,
    }
    return render(request, template, view)


@allow(router, "POST", "/tasks/{task_id}/answer", *ANSWERERS)
async def answer(request: Request, task_id: str) -> Response:
    """Answer a task's question by a form."""
    form = await form_of(request)
    service = service_of(request)
    text = form.get("text", "").strip()
    if not text:
        raise Refusal(422, Code.INVALID_ARGS, "Write an answer.")
    service.tasks.answer(identity_of(request), task_id, text[:MOST_TEXT], form.get("question", ""))
    service.poke()
    return RedirectResponse(f"/tasks/{task_id}", 303)


@allow(router, "POST", "/tasks/{task_id}/message", "caller", *ANSWERERS)
async def message(request: Request, task_id: str) -> Response:
    """Say something to a task by a form."""
    form = await form_of(request)
    text = form.get("text", "").strip()
    if text:
        service_of(request).tasks.message(identity_of(request), task_id, text[:MOST_TEXT])
        service_of(request).poke()
    return RedirectResponse(f"/tasks/{task_id}", 303)


@allow(router, "POST", "/tasks/{task_id}/cancel", "caller", *ANSWERERS)
async def cancel(request: Request, task_id: str) -> Response:
    """Cancel a task by a form."""
    service_of(request).tasks.cancel(identity_of(request), task_id)
    service_of(request).poke()
    return RedirectResponse(f"/tasks/{task_id}", 303)
