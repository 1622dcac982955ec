"""The data source `headwater`: a view as `spark.read` and `spark.readStream` know it.

What Spark calls here runs in Python processes beside its driver and its executors. They need
this package, and the warehouse where the driver has it. No source database is asked.

A DataFrame is fixed, when it is loaded, to the version that is the newest then: whatever is made
of it, and as often as it is read, is of one state.

Choices: Spark does not tell a data source, when it asks for the columns, whether it is to be read
once or as a stream. So changes, which have two columns more, are asked for by an option.
"""

from __future__ import annotations

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader
from pyspark.sql.types import StructType

from headwater.errors import InputError
from headwater.frames.spark_types import spark_schema
from headwater.readers.asked import asked_version, asked_view, whole_number
from headwater.readers.parts import ChangesReader, StateReader
from headwater.readers.profiles import send_no_empty_profile
from headwater.readers.stream import ChangesStream
from headwater.warehouse.columns import CHANGE, VERSION
from headwater.warehouse.failing import seen
from headwater.warehouse.scanning import scan_of
from headwater.warehouse.view_table import ViewTable

FORMAT = "headwater"
_STATES = ("version", "timestamp")
_CHANGES = ("startingVersion", "endingVersion", "maxVersionsPerTrigger")


class HeadwaterSource(DataSource):
    """A view, or what went and came in it."""

    number: int | None = None
    """The version that is read, or the last of which changes are."""
    is_newest = False
    """Whether it is so because it was the newest: then an earlier one is seen if it fails."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> StructType:
        """Asked for first: what is read later is what was the newest now."""
        send_no_empty_profile()
        view = self._view()
        if self._gives_changes:
            ending = self.options.get("endingVersion")
            self.number = None if ending is None else whole_number("endingVersion", ending)
        else:
            self.number = asked_version(view, self.options)
        self.is_newest = self.number is None
        self.number = view.latest().number if self.number is None else self.number
        shown = view.at(self.number).shown_schema
        return spark_schema(shown, *((CHANGE, VERSION) if self._gives_changes else ()))

    def reader(self, schema: StructType) -> DataSourceReader:
        send_no_empty_profile()
        self._check_columns(schema)
        view, number = self._view(), self.number
        if self._gives_changes:
            first = self.options.get("startingVersion")
            if first is None or not first.strip().isdecimal():
                raise InputError(
                    "Changes that are read once begin behind a version.",
                    'Write for example .option("startingVersion", 7).',
                )
            return ChangesReader(view, int(first), number)
        scan = seen(view, scan_of, number) if self.is_newest else view.scan(number)
        return StateReader(scan)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 (Spark's)
        if not self._gives_changes:
            raise InputError(
                "A stream of a view is one of its changes, with columns for these.",
                'Say so before it is loaded: .option("changes", "true").',
            )
        self._check_columns(schema)
        return ChangesStream(self._view, self.options)

    @property
    def _gives_changes(self) -> bool:
        asked = self.options.get("changes", "").lower()
        if asked not in ("", "true", "false"):
            raise InputError(f"The option changes is '{asked}'.", "It is true or false.")
        return asked == "true" or (not asked and any(name in self.options for name in _CHANGES))

    def _view(self) -> ViewTable:
        return asked_view(
            self.options, ("changes", *(_CHANGES if self._gives_changes else _STATES))
        )

    def _check_columns(self, schema: StructType) -> None:
        """Refuse columns that the user has named: a view has its own."""
        if self.number is None:
            own = ", ".join(self.schema().fieldNames())
            raise InputError(
                f"A view's columns cannot be chosen by a schema: it has {own}.",
                "Leave .schema(...) out, and .select(...) what you want.",
            )
