"""A project that a program runs and reads: what `headwater.Project` is.

Opening one is light: Spark and Delta are imported when they are first needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwater.project.project import Project

if TYPE_CHECKING:
    import threading

    from pyspark.sql import SparkSession

    from headwater.pipeline.api import MaintainedGroup, MaintainedView


class OpenProject(Project):
    """A project whose files are sound, to be run and read."""

    def view(self, name: str) -> MaintainedView:
        """A view to be read; InputError if it has not been loaded."""
        from headwater.pipeline.api import MaintainedView
        from headwater.warehouse.warehouse import Warehouse

        Warehouse(self.warehouse).shown_view(name)  # says so if there is none
        return MaintainedView(self, name)

    def group(self, name: str) -> MaintainedGroup:
        """A group of views to be read at one version; InputError if it has not been loaded."""
        from headwater.pipeline.api import MaintainedGroup
        from headwater.warehouse.warehouse import Warehouse

        Warehouse(self.warehouse).group(name)  # says so if there is none
        return MaintainedGroup(self, name)

    def register(self, spark: SparkSession) -> list[str]:
        """Make its views known to a session by their names, as they are now; see
        `headwater.register`."""
        from headwater.readers.registering import register

        return register(spark, self.folder)

    def run(
        self,
        once: bool = False,
        spark: SparkSession | None = None,
        stop: threading.Event | None = None,
    ) -> None:
        """Load what is not loaded, then maintain every view until `stop` is set.

        With `once`, until everything is reflected that the sources had when it started. A Spark
        session that is given is shared, with settings apart from its own; else one is started.
        """
        from headwater.pipeline.api import run_project

        run_project(self, once, spark, stop)
