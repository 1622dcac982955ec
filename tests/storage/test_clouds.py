"""Object stores in the clouds: what of them travels with Spark's plans."""

import pickle

import pytest

from headwater.errors import InputError
from headwater.storage.clouds import CloudBucket

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
