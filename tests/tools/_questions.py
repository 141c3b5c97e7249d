"""Questions about code and the files that answer them: what codebase_search is measured by."""

from __future__ import annotations

# About this project's own tree.
OWN: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("How is a path resolved to its canonical place beneath a root?", ("src/handrail/workspace/resolve.py",)),
    ("Where are secrets hidden in text before it is shown?", ("src/handrail/output/redact.py",)),
    (
        "atomic write of a file with fsync and rename",
        ("src/handrail/workspace/writing.py", "src/handrail/store/private.py"),
    ),
    ("Which code decides allow, ask or deny for a call?", ("src/handrail/policy/__init__.py",)),
    (
        "How are journal lines chained by hash and verified?",
        ("src/handrail/store/chain.py", "src/handrail/store/reader.py"),
    ),
    ("Where is the circuit breaker that opens after failures in a row?", ("src/handrail/limits.py",)),
    (
        "render a mustache template",
        ("src/handrail/tools/util/_mustache.py", "src/handrail/tools/util/render_template.py"),
    ),
    (
        "apply a unified diff patch to files",
        ("src/handrail/tools/fs/_patch_unified.py", "src/handrail/tools/fs/apply_patch.py"),
    ),
    ("Landlock rules that confine a process to folders", ("src/handrail/sandbox/landlock.py",)),
    ("ask a person at the terminal for approval", ("src/handrail/approvals/terminal.py",)),
    (
        "undo the changes of a run from pre-images",
        ("src/handrail/undoing.py", "src/handrail/tools/runs/undo_changes.py"),
    ),
    ("list of error codes and their classes", ("src/handrail/errors.py",)),
    ("how an untrusted project's settings meet the user's", ("src/handrail/settings/merge.py",)),
    (
        "idempotency key joins the first call and returns the stored outcome",
        ("src/handrail/store/keys.py", "src/handrail/kernel.py"),
    ),
    ("SqliteLedger grant compare and set", ("src/handrail/store/ledger.py",)),
    ("openat2 beneath a directory handle without following links", ("src/handrail/workspace/beneath.py",)),
    (
        "which files make programs run outside the sandbox, such as .github/workflows",
        ("src/handrail/policy/defaults.py", "src/handrail/policy/runs_elsewhere.py"),
    ),
    ("parse the output of ripgrep", ("src/handrail/workspace/rg_output.py",)),
    (
        "truncate text and keep head, tail or middle",
        ("src/handrail/tools/util/truncate_text.py", "src/handrail/tools/util/_cut.py"),
    ),
    (
        "remove terminal escape sequences and control characters from displayed markdown",
        ("src/handrail/tools/talk/display.py",),
    ),
)

# About an installed package: pydantic.
PYDANTIC: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("How is a discriminated union turned into a tagged union schema?", ("_internal/_discriminated_union.py",)),
    ("generate the JSON schema of a model", ("json_schema.py",)),
    (
        "validate the arguments of a function call with a decorator",
        ("validate_call_decorator.py", "_internal/_validate_call.py"),
    ),
    ("collect the fields of a model class from its annotations", ("_internal/_fields.py",)),
    ("metaclass that builds a model when the class is created", ("_internal/_model_construction.py",)),
    ("TypeAdapter validate_python", ("type_adapter.py",)),
    ("secret string that is not shown in repr", ("types.py",)),
    ("email address validation", ("networks.py",)),
    (
        "evaluate forward references and string annotations in a namespace",
        ("_internal/_typing_extra.py", "_internal/_namespace_utils.py"),
    ),
    ("alias generator to camel case and snake case", ("alias_generators.py",)),
    ("functional validators before after wrap plain", ("functional_validators.py",)),
    ("field serializer and model serializer decorators", ("functional_serializers.py",)),
    ("RootModel", ("root_model.py",)),
    ("create a pydantic dataclass from a stdlib dataclass", ("dataclasses.py", "_internal/_dataclasses.py")),
    ("generic model parametrization cache", ("_internal/_generics.py",)),
    ("config wrapper merges configuration of base classes", ("_internal/_config.py",)),
    ("deprecation warnings for removed version 1 names", ("_migration.py", "warnings.py")),
    ("color parsing from hex, rgb or hsl", ("color.py",)),
    ("extract docstrings of attributes from source", ("_internal/_docs_extraction.py",)),
    ("computed_field property decorator", ("fields.py",)),
)

# The same two trees, asked in words that their code does not use; a name with / or _ at its end stands for all below.
OTHER_WORDS_OWN: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("prevent a runaway loop from hammering a broken operation", ("src/handrail/limits.py", "src/handrail/gates/")),
    ("mask passwords so the language model cannot read them", ("src/handrail/output/",)),
    (
        "revert modifications made earlier",
        ("src/handrail/undoing.py", "src/handrail/tools/runs/", "src/handrail/store/"),
    ),
    ("human consent before a dangerous operation", ("src/handrail/approvals/", "src/handrail/gates/")),
    ("isolate a subprocess with kernel facilities", ("src/handrail/sandbox/", "src/handrail/processes/")),
    ("swap pieces of a document's text", ("src/handrail/tools/fs/",)),
    ("fetch a web page", ("src/handrail/tools/http/", "src/handrail/net/")),
    ("erase a directory", ("src/handrail/tools/fs/", "src/handrail/workspace/")),
    ("tamper evident audit trail", ("src/handrail/store/",)),
    ("current date and hour in a city", ("src/handrail/tools/util/now.py",)),
)
OTHER_WORDS_PYDANTIC: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("check that a web link is well formed", ("networks.py",)),
    ("hide confidential text when printing an object", ("types.py",)),
    ("convert names to camelCase", ("alias_generators.py",)),
    (
        "figure out parameter types from hints written as text",
        ("_internal/_typing_extra.py", "_internal/_namespace_utils.py"),
    ),
    ("emit an OpenAPI compatible description of a class", ("json_schema.py",)),
    ("duplicate an instance with some values changed", ("main.py", "deprecated/copy_internals.py")),
    ("run my own check after the standard ones", ("functional_validators.py", "_internal/_decorators.py")),
    ("load third party extensions at import time", ("plugin/_loader.py",)),
    ("whether an IPv4 value is legal", ("networks.py", "v1/networks.py", "_internal/_validators.py")),
    ("release number string", ("version.py", "v1/version.py")),
)

FIRST = 5
ENOUGH = 16
