"""A process that is an owner of claims, and says how it is when it is asked.

Its arguments: "files" and a directory, or "redis", a URL, a prefix and the seconds of a lease.
"""

import sys
from pathlib import Path

from sessions_app.store.file_owners import FileOwners
from sessions_app.store.owners import Owners


def owners_of(engine: str, place: str, *rest: str) -> Owners:
    if engine == "files":
        return FileOwners(Path(place))
    from cluster_app.redis.connection import RedisConnection  # noqa: PLC0415 - slow
    from cluster_app.redis.leases import LeaseOwners  # noqa: PLC0415 - slow

    prefix, lease_seconds = rest
    connection = RedisConnection(place, prefix=prefix, timeout_seconds=60)
    return LeaseOwners(connection, float(lease_seconds))


def main() -> None:
    owners, lost = owners_of(*sys.argv[1:]), list[str]()
    owners.when_condemned(lost.append)
    for question in sys.stdin:
        answers = {
            "mine": owners.mine,
            "holds": lambda: str(owners.holds()),
            "lost": lambda: " ".join(lost),
        }
        print(answers[question.strip()](), flush=True)


if __name__ == "__main__":
    main()
