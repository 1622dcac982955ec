"""A runner whose warehouse is in an object store."""

from pathlib import Path

import pytest

from headwater.pipeline import runner as runners
from headwater.pipeline.requests import Request, waiting_requests
from headwater.pipeline.runner import Runner
from headwater.storage.location import Location
from tests.objects.servers import endpoint_of, location, options
from tests.pipeline.small import Small


def no_spark() -> None:
    raise AssertionError("this is to be done without Spark")


def test_a_runner_with_nothing_to_do_does_not_ask_the_store_all_the_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Requests are paid for: it looks what is asked of it once in a while, however often it is
    supervised."""
    looks: list[object] = []
    monkeypatch.setattr(runners, "_PAID_LOOK_S", 3600.0)

    def look(own: Location) -> list[Request]:
        looks.append(own)
        return waiting_requests(own)

    monkeypatch.setattr(runners, "waiting_requests", look)
    small = Small(tmp_path / "project")
    settings = small.folder / "headwater.toml"
    with endpoint_of("small") as endpoint:
        told = "\n".join(f'{key} = "{value}"' for key, value in options(endpoint).items())
        place = f"[warehouse]\npath = 's3://lake/w'\n[warehouse.options]\n{told}\n"
        settings.write_text(
            place + settings.read_text().replace("[warehouse]\npublish_every = '1 hour'\n", "")
        )
        for source in small.project.sources.values():
            source.setup()
        runner = Runner(small.project, no_spark)  # type: ignore[arg-type]  # must not be called
        runner.start()
        try:
            for _ in range(5):
                runner.supervise()
        finally:
            runner.stop()
    assert len(looks) == 1


def test_an_object_that_is_appended_to_and_was_removed_is_told_as_such() -> None:
    with endpoint_of("small") as endpoint:
        place: Location = location(endpoint) / "x"
        file = place.appending()
        file.append(b"a")
        place.remove()
        with pytest.raises(OSError, match="somebody has removed it"):
            file.append(b"b")
