"""Publishing what sources have committed by now, so that peers know how new it is.

What a warehouse has says nothing about what its sources had meanwhile. So the runner is asked to
show everything that they have committed, and what is then published was, at the moment when it was
asked, the newest (see `sharing.freshness`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from headwater.errors import HeadwaterError
from headwater.pipeline.requests import ask_runner
from headwater.pipeline.share import publish_project
from headwater.project.project import Project
from headwater.sharing.freshness import note_published
from headwater.sharing.node import SharingNode
from headwater.sharing.publishing import PublishedObjects


def publish_refreshed(
    project: Project,
    node: SharingNode,
    views: Iterable[str] | None = None,
    report: Callable[[str], None] = lambda step: None,
    *,
    anew: bool = False,
) -> PublishedObjects:
    """Have the runner refresh the views, publish them, and say since when their relations hold."""
    chosen = list(views) if views is not None else None
    began = time.time()
    for unit in dict.fromkeys(map(project.unit_of, chosen or project.view_files)):
        report(f"waiting until {unit} shows what its sources have committed")
        if not ask_runner(project, "refresh", unit):
            raise HeadwaterError(
                f"No runner is at work that could refresh {unit}.",
                "Start 'headwater run', or publish without --refresh: then nobody knows how new "
                "it is.",
            )
    done = publish_project(project, node, chosen, report, anew=anew)
    relations = {relation for vector in done.vectors.values() for relation in vector}
    note_published(node.catalog, sorted(relations), began)
    return done
