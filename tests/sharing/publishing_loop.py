"""A process that publishes updategrams until it is killed, and says how far it got.

Usage: publishing_loop.py FOLDER. Version n of the relation has the one row (n).
"""

import sys

from headwater.sharing import SharingNode


def main(folder: str) -> None:
    node = SharingNode.open(folder, durable=False)
    while True:
        current = node.catalog.newest("numbers")
        node.update("numbers", inserted=[(current + 1,)], deleted=[(current,)])
        sys.stdout.write(f"{current + 1}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
