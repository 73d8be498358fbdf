import traceback

import pytest

from sessions_app.store.redis_url import RedisUrl, masked, parse_redis_url


@pytest.mark.parametrize(
    ("url", "parsed"),
    [
        ("redis://host", RedisUrl(hosts=(("host", 6379),))),
        ("valkey://host:1/2", RedisUrl(hosts=(("host", 1),), database=2)),
        ("rediss://[::1]:7/", RedisUrl(hosts=(("::1", 7),), tls=True)),
        (
            "redis://me:p%40ss@host/3",
            RedisUrl(hosts=(("host", 6379),), username="me", password="p@ss", database=3),
        ),
        ("redis://:word@host", RedisUrl(hosts=(("host", 6379),), password="word")),
        ("unix:///run/redis.sock", RedisUrl(path="/run/redis.sock")),
        (
            "redis+sentinel://a,b:2,c/main/4",
            RedisUrl(hosts=(("a", 26379), ("b", 2), ("c", 26379)), name="main", database=4),
        ),
    ],
)
def test_a_url_is_read(url: str, parsed: RedisUrl) -> None:
    assert parse_redis_url(url) == parsed


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("localhost:6379", "begins with none of"),
        ("http://host", "begins with none of"),
        ("redis://host:port", "a port that is none"),
        ("redis://host/first", "a database that is not a number"),
        ("redis://a,b", "several servers"),
        ("redis+sentinel://a,b", "which server the Sentinels know"),
        ("unix://", "no path of a socket"),
        ("redis://host/0?db=1", "has a \\? or #"),
        ("redis://[host", "a server that is none"),
    ],
)
def test_a_url_of_another_form_is_refused_with_the_form_that_it_should_have(
    url: str, said: str
) -> None:
    with pytest.raises(ValueError, match=said) as caught:
        parse_redis_url(url)

    assert "redis://[user:password@]host" in str(caught.value)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://host:1/2", "redis://host:1/2"),
        ("redis://me:secret@host/0", "redis://me:***@host/0"),
        ("redis://:secret@host", "redis://:***@host"),
        ("redis://me:sec/ret@host/0", "redis://me:***@host/0"),
        ("redis://:sec?ret#@host", "redis://:***@host"),
        ("redis://:sec@ret@host", "redis://:***@host"),
        ("redis://[:secret@host", "redis://[:***@host"),
        ("redis://host/0?password=secret", "redis://host/0"),
    ],
)
def test_a_url_is_shown_without_its_password(url: str, shown: str) -> None:
    assert masked(url) == shown


@pytest.mark.parametrize("password", ["sec/ret", "sec?ret", "sec#ret", "sec]ret", "sec\u2100ret"])
def test_a_password_that_is_not_quoted_is_in_no_error(password: str) -> None:
    with pytest.raises(ValueError, match="The URL of Redis") as caught:
        parse_redis_url(f"redis://:{password}@host/0")

    said = "".join(traceback.format_exception_only(caught.value))
    assert "sec" not in said
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
