"""A node's process that meets others until it is killed, and says how it went.

Usage: meeting_loop.py FOLDER. Each line that it reads names another node, an address or a folder,
and perhaps, behind a tab, a view for which alone something is taken. Each line that it writes is
`ok`, or why it was not.
"""

import contextlib
import os
import sys

from headwater.errors import HeadwaterError
from headwater.sharing import Peer, SharingNode
from headwater.sharing.following import catch_up
from headwater.sharing.remote import HttpPeer, Patience

PATIENCE = Patience(seconds=60.0, pause_s=0.01, longest_pause_s=0.2)


def meet(node: SharingNode, other: str, view: str) -> None:
    with contextlib.ExitStack() as stack:
        peer: Peer | HttpPeer
        if other.startswith("http:"):
            token = os.environ["HEADWATER_SHARE_TOKEN"]
            peer = stack.enter_context(contextlib.closing(HttpPeer(other, token, None, PATIENCE)))
        else:
            peer = Peer(other)
        if view:
            catch_up(node, peer, [view])
        else:
            node.take(peer)


def main(folder: str) -> None:
    node = SharingNode.open(folder, durable=False)
    for line in sys.stdin:
        other, _, view = line.rstrip("\n").partition("\t")
        try:
            meet(node, other, view)
            said = "ok"
        except HeadwaterError as error:
            said = f"{type(error).__name__}: {error}"
        sys.stdout.write(f"{said}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
