"""When something is published, as a machine that is told what time it is."""

from headwater.pipeline.publishing_policy import PublishingPolicy


def test_what_has_changed_is_due_and_what_is_published_is_not() -> None:
    policy = PublishingPolicy(every_s=0.0)
    policy.stand({"a": 1, "b": 1}, 10.0)
    assert policy.views_due(10.0) == {"a": 1, "b": 1}
    policy.stand({"a": 2, "b": 1}, 10.5)
    policy.published({"a": 1, "b": 1}, {}, began=10.0, now=11.0)
    assert policy.views_due(15.0) == {"a": 2}, "it went on meanwhile"
    assert (policy.waits_since("a"), policy.waits_since("b")) == (10.0, None)
    policy.published({"a": 2}, {}, began=15.0, now=15.0)
    assert policy.views_due(100.0) == {}
    policy.stand({"a": 3, "b": 1}, 101.0)
    assert policy.waits_since("a") == 101.0


def test_something_is_published_every_so_often_and_rarely_if_it_takes_long() -> None:
    policy = PublishingPolicy(every_s=10.0)
    policy.stand({"a": 1}, 0.0)
    policy.published({"a": 1}, {}, began=0.0, now=1.0)
    policy.stand({"a": 2}, 2.0)
    assert not policy.views_due(9.9)
    assert policy.views_due(10.0)
    policy.published({"a": 2}, {}, began=10.0, now=15.0)
    policy.stand({"a": 3}, 16.0)
    assert not policy.views_due(34.9), "it rests four times as long as it worked"
    assert policy.views_due(35.0)
    policy.published({"a": 3}, {}, began=35.0, now=40.0)
    policy.stand({"a": 4}, 41.0)
    policy.hurry()
    assert policy.views_due(41.0), "somebody waits"


def test_what_fails_is_tried_again_after_a_pause_that_grows_to_a_minute() -> None:
    policy = PublishingPolicy(every_s=0.0)
    policy.stand({"a": 1}, 0.0)
    now, pauses = 0.0, []
    for _ in range(9):
        policy.failed("no room", now)
        began = now
        while not policy.views_due(now):
            now += 0.5
        pauses.append(now - began)
    assert pauses == [1, 2, 4, 8, 16, 32, 60, 60, 60]
    assert policy.trouble == "no room"
    assert policy.is_done({"a": 1}, []), "whoever waits is not kept waiting"
    policy.published({"a": 1}, {}, now, now)
    assert policy.trouble == ""


def test_a_view_that_cannot_be_published_does_not_hold_up_the_others() -> None:
    policy = PublishingPolicy(every_s=0.0)
    policy.stand({"a": 1, "b": 1}, 0.0)
    policy.published({"a": 1, "b": 1}, {"a": "another SELECT"}, 0.0, 0.0)
    policy.stand({"a": 1, "b": 2}, 0.1)
    assert policy.views_due(0.1) == {"b": 2}
    assert (policy.why("a"), policy.why("b")) == ("another SELECT", "")
    assert not policy.is_done({"a": 1, "b": 2}, [])
    policy.published({"b": 2}, {}, 0.1, 0.1)
    assert policy.is_done({"a": 1, "b": 2}, [])
    assert not policy.is_done({"a": 1, "b": 3}, []), "it has gone on, which is not seen yet"
    assert policy.views_due(1.0) == {"a": 1}
    policy.published({"a": 1}, {}, 1.0, 1.0)
    assert policy.why("a") == ""


def test_a_source_that_could_not_be_asked_is_asked_later_and_the_others_now() -> None:
    policy = PublishingPolicy(every_s=0.0)
    assert policy.sources_due(["x", "y"], 0.0) == ["x", "y"]
    policy.asked(["x", "y"], ["x"], 0.0, 0.0)
    assert policy.sources_due(["x", "y"], 0.5) == ["y"]
    assert policy.sources_due(["x"], 1.0) == ["x"]
    assert not policy.is_done({}, ["x", "y"])
    assert policy.is_done({}, ["x"]), "it was tried"
    policy.asked(["x"], [], 1.0, 1.0)
    assert policy.sources_due(["x"], 1.0) == ["x"]


def test_a_view_that_is_gone_is_forgotten() -> None:
    policy = PublishingPolicy(every_s=0.0)
    policy.stand({"a": 1}, 0.0)
    policy.stand({}, 1.0)
    assert policy.views_due(1.0) == {}
    assert policy.waits_since("a") is None


def test_what_may_pass_by_itself_is_told_when_it_has_not() -> None:
    policy = PublishingPolicy(every_s=0.0)
    policy.stand({"a": 1}, 0.0)
    policy.failed("somebody is at it", 0.0, may_pass=True)
    assert policy.trouble == ""
    policy.failed("somebody is at it", 1.0, may_pass=True)
    assert policy.trouble == "somebody is at it"
    policy.asked([], [], 5.0, 5.0)
    assert policy.trouble == "", "the node could be used again"
