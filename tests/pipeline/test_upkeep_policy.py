"""When a view is folded and merged, and the warehouse cleaned: by time, commits and cost."""

from headwater.pipeline.upkeep_policy import Activity, UpkeepPolicy, ViewTask, WarehouseTask


def view(commits: int = 0, since: object = "a run", publish_s: float = 60.0) -> Activity:
    return Activity("v", publish_s, commits, since)


def test_a_view_is_folded_when_its_plain_table_is_as_old_as_it_may_be() -> None:
    policy = UpkeepPolicy(0.0)
    assert policy.for_view(view(1), 0.0) is None
    assert policy.for_view(view(1), 59.0) is None
    assert policy.for_view(view(1), 60.0) is ViewTask.FOLD


def test_a_view_that_nothing_was_committed_to_is_not_folded_again() -> None:
    policy = UpkeepPolicy(0.0)
    policy.for_view(view(1), 0.0)
    policy.folded(view(1), 0.1, is_whole=True, now=60.0)
    assert policy.for_view(view(1), 120.0) is None
    assert policy.for_view(view(2), 180.0) is ViewTask.FOLD


def test_a_count_of_commits_that_began_anew_is_not_taken_for_the_earlier_one() -> None:
    policy = UpkeepPolicy(0.0)
    policy.for_view(view(1), 0.0)
    policy.folded(view(1), 0.1, is_whole=True, now=60.0)
    assert policy.for_view(view(1, since="another run"), 120.0) is ViewTask.FOLD


def test_a_fold_that_took_long_is_not_followed_by_another_soon() -> None:
    policy = UpkeepPolicy(0.0)
    policy.for_view(view(1, publish_s=1.0), 0.0)
    policy.folded(view(1, publish_s=1.0), 10.0, is_whole=True, now=100.0)
    assert policy.for_view(view(2, publish_s=1.0), 139.0) is None
    assert policy.for_view(view(2, publish_s=1.0), 140.0) is ViewTask.FOLD


def test_what_could_not_be_folded_is_tried_again_later() -> None:
    policy = UpkeepPolicy(0.0)
    policy.for_view(view(1), 0.0)
    policy.failed("v", 60.0)
    assert policy.for_view(view(1), 89.0) is None
    assert policy.for_view(view(1), 90.0) is ViewTask.FOLD


def test_a_tail_that_is_not_whole_is_looked_at_again() -> None:
    policy = UpkeepPolicy(0.0)
    policy.for_view(view(1), 0.0)
    policy.folded(view(1), 0.1, is_whole=False, now=60.0)
    assert policy.for_view(view(1), 120.0) is ViewTask.FOLD


def test_small_files_are_merged_after_so_many_commits() -> None:
    policy = UpkeepPolicy(0.0)
    found = [commits for commits in range(200) if policy.for_view(view(commits), 0.0)]
    assert found == [64, 128, 192]


def test_a_count_of_commits_that_began_anew_is_counted_from_there() -> None:
    policy = UpkeepPolicy(0.0)
    assert policy.for_view(view(100), 0.0) is ViewTask.MERGE
    assert policy.for_view(view(3), 0.0) is ViewTask.MERGE
    assert policy.for_view(view(66), 0.0) is None
    assert policy.for_view(view(67), 0.0) is ViewTask.MERGE


def test_logs_are_let_go_every_minute_and_versions_deleted_every_hour() -> None:
    policy = UpkeepPolicy(0.0)
    assert policy.for_warehouse(59.0) == []
    assert policy.for_warehouse(60.0) == [WarehouseTask.RELEASE]
    policy.done(WarehouseTask.RELEASE, 60.0)
    assert policy.for_warehouse(119.0) == []
    assert policy.for_warehouse(3600.0) == [WarehouseTask.RELEASE, WarehouseTask.CLEAN_UP]
