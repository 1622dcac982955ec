"""Rewrites the generated parts of the documentation: `make docs`.

A generated part stands between `<!-- generated: NAME -->` and `<!-- end -->`.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, get_origin

from pydantic import BaseModel, BeforeValidator, SecretStr
from pydantic.fields import FieldInfo

from headwater.algebra.evaluate import evaluate_view
from headwater.algebra.functions.late import LATE_FUNCTIONS
from headwater.algebra.functions.table import BY_NAME, Function
from headwater.algebra.keying import keying
from headwater.algebra.rows import Rows
from headwater.algebra.schema import Relation, Schema
from headwater.algebra.sql.forms import FORMS, Form
from headwater.algebra.sql.view import parse_view
from headwater.algebra.values import INT, show
from headwater.algorithms.registry import ALGORITHMS, SCENARIO_KINDS
from headwater.bench.comparison import comparable, compare
from headwater.bench.papers.command import EXPERIMENTS
from headwater.bench.papers.frame import cells
from headwater.check.explain import explain
from headwater.lab.library import example, example_names
from headwater.lab.mistakes import MISTAKES, Examined, examine, shortest
from headwater.lab.simulate import LAB_SETTINGS
from headwater.lab.spectrum import (
    Cell,
    measure,
    measure_spectrum,
    small_scenarios,
    some_key_scenarios,
)
from headwater.pipeline.life import TABLE, LifeEvent, LifeState, Refused, Step
from headwater.project.choice import resolve, usable
from headwater.project.setting_values import parse_duration, parse_every
from headwater.project.settings import SECTIONS, RunSettings
from headwater.project.view_files import LEVELS
from headwater.protocol.trace import show_trace
from headwater.sources.kinds import KINDS
from headwater.sources.mariadb.meanings import TABLE as MARIADB_TYPES
from headwater.sources.postgres.meanings import KNOWN, Known
from headwater.sources.sqlite.meanings import KNOWN as SQLITE_KNOWN
from headwater.sources.sqlite.meanings import meaning_of

if TYPE_CHECKING:
    from tests.pipeline.orders import Judged

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # for the tables of tests
DOCS = Path(__file__).parent
ONE, SEVERAL = ("crm",), ("crm", "shop")
PART = re.compile(r"(<!-- generated: ([\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def algorithms() -> str:
    return table(
        ["name", "what it does", "from", *SCENARIO_KINDS],
        (
            [f"`{a.name}`", a.summary, a.paper, *(a.promises[kind] for kind in SCENARIO_KINDS)]
            for a in ALGORITHMS.values()
        ),
    )


def parameters() -> str:
    return table(
        ["algorithm", "parameter", "default", "meaning"],
        (
            [f"`{a.name}`", f"`{name}`", f"`{p.default}`", p.meaning]
            for a in ALGORITHMS.values()
            for name, p in a.parameters.items()
        ),
    )


def lab_settings() -> str:
    return table(
        ["setting", "choice", "meaning"],
        (
            [f"`{name}`", f"`{choice}`", meaning]
            for name, choices in LAB_SETTINGS.items()
            for choice, meaning in choices.items()
        ),
    )


def examples() -> str:
    return table(
        ["name", "about"],
        ([f"`{name}`", str(example(name).data.get("about", ""))] for name in example_names()),
    )


def spectrum() -> str:
    cells = {(cell.algorithm, cell.kind): cell for cell in measure_spectrum(range(12))}
    return table(
        ["algorithm", *SCENARIO_KINDS],
        (
            [f"`{name}`", *(_promised_and_measured(cells[name, kind]) for kind in SCENARIO_KINDS)]
            for name in ALGORITHMS
        ),
    )


def left_open() -> str:
    """What becomes of levels where something is otherwise than the papers assume."""
    names = [name for name, algorithm in ALGORITHMS.items() if algorithm.nodes is None]
    return table(
        [
            "algorithm",
            "answers out of order, one source",
            "answers out of order, two sources",
            "global, sites report",
            "the last site reports",
            "with numbers",
            "some keys",
            "some keys, KEEP KEYS",
        ],
        ([f"`{name}`", *_left_open(name)] for name in names),
    )


def _left_open(name: str) -> Iterator[str]:
    for kind in ("single-source", "multi-source"):
        yield _measured(measure(name, kind, small_scenarios(kind), {"channels": "updates"}))
    for way in ("sites", "committer", "numbered"):
        yield _measured(measure(name, "global", small_scenarios("global"), {"report": way}))
    for keeps in (False, True):
        scenarios = some_key_scenarios("multi-source", range(6), keeps)
        yield _measured(measure(name, "multi-source", scenarios))


def _measured(cell: Cell) -> str:
    return str(cell.measured) if cell.scenarios else "refused"


def on_databases() -> str:
    """The level of each algorithm on real databases beside writers, by what the runs have shown."""
    from headwater.embedded.postgres import PostgresServer
    from tests.pipeline.orders import PLAIN, VIEWS, Orders, judged, run_beside_writers

    cells: dict[tuple[str, bool], Judged] = {}
    server = PostgresServer()
    with TemporaryDirectory() as folder, ExitStack() as stack:
        stack.callback(server.stop)
        shop = Orders(Path(folder), server, {name: text for name, (text, _) in VIEWS.items()})
        try:
            run_beside_writers(shop, transactions=100)
        finally:
            shop.teardown()
        for found in judged(shop):
            if found.view in PLAIN:
                cells[found.algorithm, len(found.sources) == 1] = found
    return table(
        ["algorithm", "over one source", "versions", "over two sources", "versions"],
        (
            [f"`{name}`", *_kept(cells.get((name, True))), *_kept(cells.get((name, False)))]
            for name in ALGORITHMS
            if (name, True) in cells
        ),
    )


def _kept(found: Judged | None) -> list[str]:
    if found is None:
        return ["-", "-"]
    shown = f"{found.promised} / {found.level}"
    is_kept = found.level >= found.promised
    versions = str(found.versions) if found.versions else "the end"
    return [shown if is_kept else f"**{shown}, broken**", versions]


def _promised_and_measured(cell: Cell) -> str:
    shown = f"{cell.promised} / {cell.measured}"
    return shown if cell.is_kept else f"**{shown}, broken**"


def messages() -> str:
    sizes = (2, 3, 4, 6)
    return table(
        ["algorithm", "level", "needs silence", *(f"n = {size}" for size in sizes)],
        (
            [
                f"`{row.algorithm}`",
                str(row.level),
                "yes" if row.needs_quiescence else "no",
                *(f"{q:.0f} / {b:.1f}" for q, b in zip(row.quiet, row.busy, strict=True)),
            ]
            for row in compare(comparable(), sizes)
        ),
    )


def paper(name: str) -> str:
    """A paper's figures, as they were found by the last run that was written to docs/papers."""
    data = json.loads((DOCS / "papers" / f"{name}.json").read_text(encoding="utf-8"))
    return "\n".join(_figure(figure) for figure in data["figures"])


_FOLDED = 12
"""From so many rows on a table is folded away."""


def _figure(figure: Mapping[str, Any]) -> str:
    shown = table(list(figure["columns"]), cells(figure["columns"], figure["records"]))
    if len(figure["records"]) >= _FOLDED:
        shown = (
            f"<details><summary>{len(figure['records'])} rows</summary>\n\n{shown}\n</details>\n"
        )
    return (
        f"**{figure['name']}: {figure['title']}**\n\n"
        f"Published: {figure['claim']}\n\nFound: {figure['found']}\n\n{shown}"
    )


def mistakes() -> str:
    """Every mistake with its smallest run, and what both forms reach over all schedules."""
    found = [examine(mistake) for mistake in MISTAKES.values()]
    rows = (
        [
            f"[{each.mistake.paper}, {each.mistake.where}](#{each.mistake.name})",
            str(each.printed.level),
            str(each.repaired.level),
            f"{each.printed.schedules:,} / {each.repaired.schedules:,}",
        ]
        for each in found
    )
    listed = table(["where", "as printed", "repaired", "schedules"], rows)
    return f"{listed}\n" + "\n".join(_mistake(each) for each in found)


def _mistake(found: Examined) -> str:
    mistake = found.mistake
    data = mistake.scenario.data
    relations = "; ".join(
        f"`{name}({', '.join(columns)})` at {source}: {rows}"
        for name, source, columns, rows in _relations(data)
    )
    steps = "\n".join(show_trace(shortest(found).trace))
    algorithm, settings = mistake.repaired
    told = "".join(f" --set {name}={value}" for name, value in settings.items())
    return (
        f"### {mistake.name}\n\n**{mistake.paper}, {mistake.where}.** {mistake.wrong}\n\n"
        f"The smallest case: {relations}; the view `{data['view']}`.\n\n```\n{steps}\n```\n\n"
        f"{explain(mistake.scenario.history, shortest(found).verdict)}\n\n"
        f"**What holds.** {mistake.holds} The lowest level over all schedules of this case "
        f"({found.repaired.schedules:,}) is {found.repaired.level} with `{algorithm}{told}`, and "
        f"{found.printed.level} as printed: `headwater lab mistakes {mistake.name}`.\n"
    )


def _relations(data: Mapping[str, Any]) -> Iterator[tuple[str, str, list[str], str]]:
    for name, described in data["relations"].items():
        rows = ", ".join(map(str, described["rows"])) or "empty"
        yield name, described["source"], list(described["columns"]), rows


def settings(model: type[BaseModel]) -> str:
    """A section of headwater.toml: what each of its keys is, and what it is if left out."""
    return table(
        ["key", "type", "default", "meaning"],
        (
            [f"`{name}`", _type_name(info), _default(info), info.description or ""]
            for name, info in model.model_fields.items()
        ),
    )


def _type_name(info: FieldInfo) -> str:
    for part in info.metadata:
        if isinstance(part, BeforeValidator) and part.func in _READ:
            return _READ[part.func]
    kind = info.annotation
    if type(None) in get_args(kind):
        kind = get_args(kind)[0]
    if get_origin(kind) is Literal:
        return " or ".join(f'`"{choice}"`' for choice in get_args(kind))
    return _TYPES[get_args(kind)[0] if get_origin(kind) is Annotated else kind]


def _default(info: FieldInfo) -> str:
    if info.is_required():
        return "required"
    if info.default is None or info.default in ({}, []):
        return "none"
    value = info.default
    if isinstance(value, list | bool):
        return f"`{json.dumps(value)}`"
    return f'`"{value}"`' if isinstance(value, str | Path) else f"`{value}`"


_READ: dict[Any, str] = {parse_duration: "duration", parse_every: 'duration or `"commit"`'}
_TYPES: dict[Any, str] = {
    bool: "true or false",
    str: "text",
    int: "whole number",
    int | str: "whole number or text",
    Path: "path",
    Path | str: "path or address",
    SecretStr: "text",
    float: "number",
    list[str]: "list of texts",
    dict[str, str]: "table of texts",
    dict[str, list[str]]: "table of lists of texts",
    dict[str, dict[str, str]]: "table of tables of texts",
}


def promises() -> str:
    """What USING may name at which level."""
    return table(
        ["level", "by default", "USING may name", "over one source also"],
        (
            [
                f"`{word}`",
                f"`{resolve(level, None, {}, RunSettings(), SEVERAL)[0].name}`",
                ", ".join(f"`{name}`" for name in usable(level, SEVERAL)),
                ", ".join(f"`{n}`" for n in usable(level, ONE) if n not in usable(level, SEVERAL)),
            ]
            for word, level in LEVELS.items()
        ),
    )


def life() -> str:
    """What becomes of a view when something happens; a dash where that cannot happen."""
    return table(
        ["what happens", *(state.value for state in LifeState)],
        (
            [_in_words(event), *(_becomes(TABLE[state][event]) for state in LifeState)]
            for event in TABLE[LifeState.WAITING]
        ),
    )


def _in_words(event: type[LifeEvent]) -> str:
    return re.sub(r"(?<=.)(?=[A-Z])", " ", event.__name__).lower()


def _becomes(step: Step | Refused) -> str:
    return step.to.value if isinstance(step, Step) else "-"


_FORMS = {
    "number": "text, without zeros at its end",
    "interval": "text, as `justify_interval` gives it: months of 30 days, days of 24 hours",
    "padded": "text, without the spaces that fill it up",
    "float4": "float, the exact value of the four bytes",
}
_MADE = [
    ["enumerations", "text: the label", ""],
    ["domains", "as their base type", ""],
    ["arrays of a type", "`array<...>` of what that type is here", "as of the elements"],
    ["composites", "`struct<...>` of what their fields are here", "as of the fields"],
    ["ranges", "text, as printed", "as of what they are made of"],
    ["types of extensions", "text, as printed", "as the database's own way to compare differs"],
]


def postgres_types() -> str:
    """What PostgreSQL's types are here, and how equality differs."""
    return table(
        ["PostgreSQL", "here", "equality"],
        [
            ["`numeric(p,s)` with p up to 38 and s from 0 to p", "decimal(p,s)", ""],
            *([f"`{known.name}`", _here(known), known.equality] for known in KNOWN.values()),
            *_MADE,
            ["`regclass`, `regtype` and the like, `aclitem`", "cannot be used", "printed by name"],
        ],
    )


def _here(known: Known) -> str:
    printed = "text, as printed" if known.form in ("printed", "uuid") else str(known.type)
    return _FORMS.get(known.form, printed)


_EMPTY = Relation("r", "s", Schema.of([("k", INT)]))


def functions() -> str:
    """The functions of views: what they take, and an example with its value."""
    found: list[Form | Function] = [*FORMS.values(), *BY_NAME.values()]
    every = list(dict.fromkeys(found))
    return table(
        ["function", "takes", "example", "value"],
        (
            [
                ", ".join(f"`{name}`" for name in function.names),
                function.takes,
                f"`{function.example}`",
                f"`{_value(function.example)}`",
            ]
            for group in ("choice", "text", "number", "date and time", "array and struct")
            for function in sorted(every, key=lambda f: f.names[0])
            if function.group == group
        ),
    )


def late() -> str:
    """The functions of views that only Spark computes."""
    rows = (
        [
            ", ".join(f"`{name}`" for name in function.names),
            function.takes,
            f"`{function.example}`" if function.example else "",
        ]
        for group in ("text", "number", "date and time", "array", "JSON")
        for function in sorted(LATE_FUNCTIONS, key=lambda f: f.names[0])
        if function.group == group
    )
    return table(["function", "takes", "example"], [*rows, *LATE_FORMS])


LATE_FORMS = (
    ["`from_json`, `from_csv`", "(text, text constant)", "`from_json(x, 'a BIGINT, b STRING').a`"],
    ["`transform`", "(array, function)", "`transform(xs, x -> x + 1)`"],
    ["`filter`", "(array, function)", "`filter(xs, (x, i) -> x > i)`"],
    ["`exists`, `forall`", "(array, function)", "`exists(xs, x -> x > 1)`"],
    ["`zip_with`", "(array, array, function)", "`zip_with(xs, ys, (x, y) -> x * y)`"],
    [
        "`aggregate`, `reduce`",
        "(array, any type, function, [function])",
        "`aggregate(xs, 0, (total, x) -> total + x)`",
    ],
    [
        "`array_sort`",
        "(array, function)",
        "`array_sort(xs, (a, b) -> IF(a < b, 1, IF(a > b, -1, 0)))`",
    ],
)


def _value(expression: str) -> str:
    view = parse_view(f"SELECT {expression} AS v FROM r", [_EMPTY])
    (row,) = evaluate_view(view, {"r": Rows.of(_EMPTY.schema, [(0,)])})
    return show(row[0])


_STORED_AS = {
    "bool": "bool; stored as 0 or 1",
    "date": "date; stored as `2024-05-01`",
    "timestamp": "timestamp; stored as `2024-05-01 12:30:00`, also with `T` or fractions",
    "timestamp_tz": "timestamp_tz; the same with `Z` or an offset",
    "text": "text; never padded",
}
_SQLITE_ROWS = [
    (("INTEGER", "INT", "BIGINT", "INT(11)", "BIGINT UNSIGNED"), ""),
    (("DECIMAL(10,2)", "NUMERIC(18)"), ""),
    *(
        (tuple(name for name, of in SQLITE_KNOWN.items() if of == kind), more)
        for kind, more in {
            SQLITE_KNOWN["BOOLEAN"]: "",
            SQLITE_KNOWN["REAL"]: " and others of that affinity",
            SQLITE_KNOWN["TEXT"]: " and others of that affinity",
            SQLITE_KNOWN["BLOB"]: " and others with `BLOB` in them",
            SQLITE_KNOWN["DATE"]: "",
            SQLITE_KNOWN["TIMESTAMP"]: "",
            SQLITE_KNOWN["TIMESTAMPTZ"]: "",
        }.items()
    ),
    (("JSON", "UUID", "TIME", "STRING", "DECIMAL"), " and every other name"),
    (("",), ""),
]
"""Declared types that are one thing here, and what else is."""


def sqlite_types() -> str:
    """What declared types of SQLite are here, and how equality differs."""
    return table(
        ["SQLite", "affinity", "here", "equality"],
        (
            [
                (", ".join(f"`{name}`" for name in names if name) or "no type, `ANY` in STRICT")
                + more,
                ", ".join(dict.fromkeys(meaning_of(name).affinity for name in names)),
                _sqlite_here(names),
                meaning_of(names[0]).equality,
            ]
            for names, more in _SQLITE_ROWS
        ),
    )


def mariadb_types() -> str:
    """What the types of MariaDB and MySQL are here, and how equality differs."""
    return table(["MariaDB, MySQL", "here", "equality"], MARIADB_TYPES)


def _sqlite_here(names: Sequence[str]) -> str:
    meaning = meaning_of(names[0])
    if meaning.is_printed:
        return "text, whatever is stored"
    if meaning.type.name == "decimal":
        return "decimal(p,s), p up to 38"
    return _STORED_AS.get(meaning.type.name, str(meaning.type))


def features() -> str:
    """What views beyond joins may say: examples, what is stored for them, how they are computed."""
    from tests.algebra.sql_features import FEATURES, RELATIONS

    def row(name: str, query: str) -> list[str]:
        view = parse_view(query, RELATIONS)
        keyed = view.top is None or keying(view.top) is not None
        parts = len(view.joins)
        return [name, f"`{query}`", str(parts), "by key" if keyed else "whole"]

    return table(
        ["", "for example", "parts", "computed"],
        (
            row(f"**{feature.name}**" if at == 0 else "", query)
            for feature in FEATURES
            for at, query in enumerate(feature.queries[:3])
        ),
    )


def others() -> str:
    """How many views of other systems use a feature there, and how many are accepted here."""
    from tests.algebra.other_views import DRAWN, OTHER_VIEWS

    def row(name: str, feature: str | None) -> list[str]:
        cells = []
        for system in (*DRAWN, None):
            there = [
                v
                for v in OTHER_VIEWS
                if feature in (None, v.feature) and system in (None, v.system)
            ]
            here = sum(not v.refused for v in there)
            cells.append(f"{here} of {len(there)}" if there else "")
        return [name, *cells]

    uses = Counter(view.feature for view in OTHER_VIEWS)
    rows = [row(feature, feature) for feature, _ in uses.most_common()]
    return table(["accepted here", *DRAWN, "all"], [*rows, row("**all**", None)])


def others_refused() -> str:
    """Why views of other systems are refused."""
    from tests.algebra.other_views import NO_FUNCTION_OF_SOURCES, OTHER_VIEWS

    def share(number: int) -> str:
        return f"{number} of {len(OTHER_VIEWS)} ({100 * number / len(OTHER_VIEWS):.1f}%)"

    refused = [view for view in OTHER_VIEWS if view.refused]
    reasons = Counter(view.refused for view in refused)
    rows, never = [], [view for view in refused if view.refused in NO_FUNCTION_OF_SOURCES]
    for is_never in (True, False):
        for reason, count in reasons.most_common():
            if (reason in NO_FUNCTION_OF_SOURCES) is is_never:
                systems = dict.fromkeys(view.system for view in refused if view.refused == reason)
                rows.append([reason, str(count), ", ".join(systems)])
        words = "no function of what the sources have" if is_never else "something else"
        number = len(never) if is_never else len(refused) - len(never)
        rows.append([f"**{words}**", share(number), ""])
    rows.append(["**all**", share(len(refused)), ""])
    return table(["refused here because it is or has", "views", "from"], rows)


QUICK: dict[str, Callable[[], str]] = {
    "algorithms": algorithms,
    "parameters": parameters,
    "lab-settings": lab_settings,
    "examples": examples,
    "promises": promises,
    "life": life,
    "postgres-types": postgres_types,
    "functions": functions,
    "late": late,
    "features": features,
    "others": others,
    "others-refused": others_refused,
    "sqlite-types": sqlite_types,
    "mariadb-types": mariadb_types,
    "mistakes": mistakes,
    **{f"papers-{name}": partial(paper, name) for name in EXPERIMENTS},
    **{
        f"settings-{name}": partial(settings, model)
        for name, model in {**SECTIONS, **KINDS}.items()
    },
}
ALL: dict[str, Callable[[], str]] = {
    **QUICK,
    "spectrum": spectrum,
    "left-open": left_open,
    "on-databases": on_databases,
    "messages": messages,
}


def renewed(text: str, parts: dict[str, Callable[[], str]]) -> str:
    """The page with these parts generated anew and all others as they are."""

    def renew(match: re.Match[str]) -> str:
        start, name, end = match.groups()
        return start + parts[name]() + end if name in parts else match[0]

    return PART.sub(renew, text)


def main() -> None:
    """Renew everything, or only the parts that are named."""
    wanted = {name: ALL[name] for name in sys.argv[1:]} or ALL
    for page in sorted(DOCS.glob("*.md")):
        text = page.read_text(encoding="utf-8")
        page.write_text(renewed(text, wanted), encoding="utf-8")
        sys.stdout.write(f"{page.name}\n")


if __name__ == "__main__":
    main()
