"""`headwater lab demo`: an anomaly, then its repair."""

from __future__ import annotations

from rich.panel import Panel
from rich.text import Text

from headwater.check.explain import explain
from headwater.lab.explore import explore
from headwater.lab.library import example
from headwater.lab.run import run
from headwater.lab.schedules import parse_schedule, replayed
from headwater.lab.simulate import simulate
from headwater.protocol.trace import show_trace
from headwater.terminal.output import console, plain, styled

REPAIR = "sweep"


def demo() -> None:
    """An anomaly of conventional view maintenance, then the same updates handled right."""
    out = console()
    scenario = example("eca-2")
    schedule = parse_schedule(scenario.data["schedule"])
    out.print(Panel(plain(scenario.view.sql), title="A view over two tables", expand=False))
    out.print("Two rows are inserted at the source. A conventional algorithm asks the source")
    out.print("what each insertion changes. The source goes on changing while it asks:")
    out.print()
    wrong = run(simulate(scenario, "conventional"), replayed(schedule))
    for step in show_trace(wrong.trace):
        out.print(f"  {step}")
    out.print()
    out.print(f"✗ {explain(scenario.history, wrong.verdict)}")
    out.print()
    out.print("The same updates with", Text.assemble((REPAIR, "bold"), ":"))
    out.print()
    simulation = simulate(scenario, REPAIR)
    right = run(simulation, replayed(schedule))
    for step in show_trace(right.trace):
        out.print(f"  {step}")
    out.print()
    out.print(f"✓ {explain(scenario.history, right.verdict)}")
    out.print()
    out.print("Not one lucky run: the lab tries every order in which things can happen.")
    out.print()
    for name in ("conventional", REPAIR):
        found = explore(simulate(scenario, name))
        level = styled(str(found.level))
        out.print(f"  {name:<13}", level, f"over {found.schedules} schedules")
    out.print()
    out.print("Next: headwater lab examples, headwater lab explore eca-3 -a conventional")
