"""Object stores in the clouds: what of them travels with Spark's plans."""

import pickle

import pytest

from headwater.errors import InputError
from headwater.storage.bucket import DeniedError, StoreError, UnansweredError
from headwater.storage.clouds import CloudBucket
from tests.objects.proxy import faulty_proxy
from tests.objects.servers import endpoint_of, options

OPTIONS = {
    "aws_access_key_id": "somebody",
    "aws_secret_access_key": "rosebud",
    "aws_session_token": "rosebud",
    "endpoint": "http://127.0.0.1:1",
    "region": "here",
    "allow_http": "true",
}


def test_a_bucket_that_travels_with_a_plan_leaves_its_secrets_behind() -> None:
    travelling = pickle.dumps(CloudBucket("s3://bucket/folder", OPTIONS))
    assert b"rosebud" not in travelling
    assert b"somebody" not in travelling


def test_a_bucket_that_has_travelled_is_the_same_place() -> None:
    arrived = pickle.loads(pickle.dumps(CloudBucket("s3://bucket/folder", OPTIONS)))
    assert arrived.uri == "s3://bucket/folder"
    assert arrived._options["endpoint"] == "http://127.0.0.1:1"


def test_an_endpoint_with_a_password_in_it_is_refused_without_telling_it() -> None:
    options = {"aws_endpoint": "http://user:pa55@127.0.0.1:1", "allow_http": "true"}
    with pytest.raises(InputError, match="aws_endpoint") as told:
        CloudBucket("s3://lake/warehouse", options)
    assert "pa55" not in str(told.value)


def test_a_proxy_with_a_password_does_not_travel_with_a_plan() -> None:
    options = {"proxy_url": "http://user:pa55@127.0.0.1:1", "aws_region": "us-east-1"}
    travels = pickle.dumps(CloudBucket("s3://lake/warehouse", options))
    assert b"pa55" not in travels
    assert b"us-east-1" in travels


# Why there is no answer


def asked(endpoint: str, **more: str) -> StoreError:
    """What is raised by the first question to a store that cannot be reached."""
    with pytest.raises(StoreError) as caught:
        CloudBucket("s3://lake/timeout", {**options(endpoint), **more}).get("x")
    assert options("")["aws_secret_access_key"] not in str(caught.value)
    return caught.value


def test_a_connection_that_is_refused_is_told_as_such() -> None:
    found = asked("http://127.0.0.1:9")
    assert isinstance(found, UnansweredError)
    assert "the connection was refused" in str(found)


def test_an_answer_that_is_lost_is_told_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    with endpoint_of("small") as endpoint, faulty_proxy(endpoint) as proxy:
        monkeypatch.setattr(proxy, "draw", lambda: "lose answer")
        found = asked(proxy.endpoint)
    assert isinstance(found, UnansweredError)
    assert "the connection was broken off" in str(found)


def test_a_host_that_nobody_knows_is_told_at_once() -> None:
    found = asked("http://no-such-host.invalid")
    assert isinstance(found, DeniedError)
    assert "its host is not known" in str(found)


def test_an_address_without_tls_is_told_at_once_with_the_option_that_allows_it() -> None:
    found = asked("http://127.0.0.1:9", allow_http="false")
    assert isinstance(found, DeniedError)
    assert "allow_http" in str(found)


def test_a_server_without_tls_is_told_at_once() -> None:
    with endpoint_of("small") as endpoint:
        found = asked(endpoint.replace("http:", "https:"))
    assert isinstance(found, DeniedError)
    assert "does not speak TLS" in str(found)


def test_a_store_that_has_answered_before_is_not_given_up_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bucket = CloudBucket("s3://lake/x", options("http://127.0.0.1:9"))
    monkeypatch.setattr(bucket, "_asked_since", -1e9)
    with pytest.raises(DeniedError):
        bucket.get("x")
    monkeypatch.setattr(bucket, "_has_answered", True)
    with pytest.raises(UnansweredError):
        bucket.get("x")
