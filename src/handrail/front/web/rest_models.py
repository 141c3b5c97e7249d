"""The bodies and answers of REST, as OpenAPI shows them."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

MOST_WAIT_SECONDS = 55.0


class Body(BaseModel):
    """A request's body: unknown fields are refused."""

    model_config = ConfigDict(extra="forbid")


class CallBody(Body):
    """One call."""

    tool: str = Field(max_length=200, description="The tool, as `GET /v1/tools` names it.")
    args: dict[str, Any] = Field(default_factory=dict, description="Its arguments.")
    workspace: str = Field(max_length=128, description="A name from `[serve.workspaces]`.")
    dialect: str = Field("native", max_length=64, description="Whose names and arguments these are.")
    run: str | None = Field(None, max_length=128, description="A run of your own; none: your open one there.")
    wait_seconds: float = Field(
        0.0, ge=0, le=MOST_WAIT_SECONDS, description="How long to wait for a person before the answer is 202."
    )


class AnswerBody(Body):
    """What a person says to a request."""

    answer: Literal["once", "run", "always", "no", "later"]
    digest: str = Field("", max_length=64, description="The one that `GET /v1/approvals/{id}` gave; not for no, later.")
    advice: str = Field("", max_length=2000, description="With no: what to do instead.")


class UndoBody(Body):
    """What to take back."""

    call: str | None = Field(None, max_length=128, description="Only this call; none: all of the run.")
    preview: bool = Field(True, description="Only tell what would be put back.")


class ExplainBody(Body):
    """A call to be judged and not made."""

    tool: str = Field(max_length=200)
    args: dict[str, Any] = Field(default_factory=dict)
    workspace: str = Field(max_length=4096, description="A name from `[serve.workspaces]`, or a folder runs worked in.")


class TaskBody(Body):
    """A task for the agent."""

    task: str = Field(min_length=1, max_length=100_000)
    workspace: str = Field(max_length=4096, description="A name from `[serve.workspaces]`.")
    queue: str = Field("", max_length=64)


class TextBody(Body):
    """A text of a person for a task."""

    text: str = Field(min_length=1, max_length=100_000)


class ProblemAnswer(BaseModel):
    """What went wrong (RFC 9457)."""

    type: str
    title: str
    status: int
    code: Annotated[str, Field(description="One of our codes.")]
    detail: str
    details: dict[str, Any] | None = None


_PROBLEM = {"application/problem+json": {"schema": ProblemAnswer.model_json_schema()}}
PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {"description": text, "content": _PROBLEM}
    for status, text in {
        400: "The request cannot be read.",
        401: "Nobody is known by this token.",
        403: "The role is missing, or the request comes from elsewhere.",
        404: "There is nothing by this name that you may see.",
        409: "It is no longer so: somebody decided before, or something changed.",
        413: "The body is too large.",
        422: "The request does not fit.",
        429: "Too many; try again later.",
        503: "The journal cannot be written.",
    }.items()
}
