"""A process that commits to a view until it is killed or fenced off, and says how far it got.

Usage: committing.py WAREHOUSE RUNNER. Commit number n adds the row (n, RUNNER) and takes away
the row that the commit before it added.
"""

import sys

from headwater.algebra.rows import Rows
from headwater.algebra.values import Row
from headwater.errors import FencedError
from headwater.warehouse.vectors import Reached
from headwater.warehouse.warehouse import Warehouse


def main(path: str, runner: str) -> None:
    view = Warehouse(path).view("orders")
    try:
        with view.writer(runner) as writer:
            shown: dict[Row, int] = {}
            while True:
                number = writer.latest.number + 1
                change = {**dict.fromkeys(shown, -1), (number, runner): 1}
                vector = {source: Reached(number, {"n": number}) for source in view.sources}
                writer.commit(Rows(view.schema, change), vector)
                shown = {(number, runner): 1}
                sys.stdout.write(f"{number}\n")
                sys.stdout.flush()
    except FencedError:
        sys.stdout.write("fenced\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
