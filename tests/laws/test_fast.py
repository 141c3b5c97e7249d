"""`make test-fast` leaves out no law without a reason, and reaches every front end."""

from __future__ import annotations

from pathlib import Path

import pytest

import handrail
from fast import FRAMEWORKS, SCENARIO, SLOW_LAWS, is_fast
from fronts.front_ends import FRONTS
from fronts.scenarios import ALL

HERE = Path(__file__).parent
FRONT = Path(handrail.__file__).parent / "front"
# What of `handrail.front` serves nobody by itself.
NO_FRONT_END = {"reference", "reference_names", "reference_python"}


def test_every_law_is_fast_or_has_a_reason_not_to_be(request: pytest.FixtureRequest) -> None:
    """A new file of laws is in the quick loop without being named."""
    files = {path.name for path in HERE.glob("test_*.py")}
    assert {name for name in files if not is_fast(HERE / name, "any")} == set(SLOW_LAWS)
    assert request.node.get_closest_marker("fast") is not None


def test_the_quick_loop_has_a_scenario_for_every_front_end() -> None:
    """Each scenario runs through all of them, so one is enough."""
    assert [str(scenario) for scenario in ALL].count(SCENARIO) == 1
    assert is_fast(HERE.parent / "fronts" / "test_scenarios.py", f"test_a_scenario[{SCENARIO}]")
    shared = {name.partition(",")[0].partition(" ")[0] for name in FRONTS}
    assert shared == {"python", "cli", "pydantic", "mcp"}


def test_every_front_end_is_in_the_quick_loop() -> None:
    """A new module of `handrail.front` needs a scenario there."""
    there = {path.stem for path in FRONT.iterdir() if not path.name.startswith("_")} - NO_FRONT_END
    assert there - {"cli", "mcp", "pydantic_ai", "web"} == set(FRAMEWORKS.values())
    tests = (HERE.parent / "fronts" / "test_function_calls.py").read_text()
    for test, module in FRAMEWORKS.items():
        body = tests.partition(f"async def {test}(")[2].partition("\nasync def ")[0]
        assert f"from handrail.{module} import" in body
        assert is_fast(HERE.parent / "fronts" / "test_function_calls.py", test)


def test_nothing_else_is_in_the_quick_loop() -> None:
    """Attacks and faults take minutes."""
    assert not is_fast(HERE.parent / "attacks" / "test_sandbox.py", "test_a_probe")
    assert not is_fast(HERE.parent / "fronts" / "test_scenarios.py", "test_a_scenario[another]")
