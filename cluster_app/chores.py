"""Lists the chores of a cluster: sealing the turns of dead machines within a second."""

from collections import defaultdict
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial

from chat.conversation_storage import KEY_PREFIXES, ConversationStorage, Storages
from cluster_app.connections import Cluster
from cluster_app.redis.owner_hints import HintedSession, OwnerHints
from mochi_project.app import ServicePool, Services
from mochi_project.configuration.app_settings import AppSettings
from mochi_project.principal import DEFAULT_OWNER, acting_for
from sessions_app.errors import MochiError, SessionNotFound

_KINDS = {prefix: kind for kind, prefix in KEY_PREFIXES.items()}


def sealing_chores(services: Services) -> Mapping[str, Callable[[], object]]:
    """Return the chores that seal turns of dead machines within a second, of the default owner.

    Claims on sessions in files are read one by one, so they are left to the regular chores.
    """
    settings = services.get(AppSettings)
    if settings.owner != DEFAULT_OWNER:
        return {}
    return {
        f"seal turns of dead machines in {each.place}": (
            each.recovery.seal_unended if settings.sessions_url is None else each.recovery.seal_all
        )
        for each in services.get(Storages).values()
    }


def shared_sealing_chores(services: Services) -> Mapping[str, Callable[[], object]]:
    """Return the chores that do so for all other owners together."""
    cluster = services.get(Cluster)
    hints, pool = OwnerHints(cluster.connection), services.get(ServicePool)
    return {
        # To declare others dead, a process must have held a lease for a while: so from the start.
        "hold a lease": cluster.owners.mine,
        "seal turns of dead machines": partial(seal_hinted, hints, cluster.owners.lives, pool),
    }


def seal_hinted(hints: OwnerHints, lives: Callable[[str], bool], pool: ServicePool) -> None:
    """Seal the turns of dead processes of all owners but the default one, or go on with them.

    Loads the owners who have some.
    """
    due = hints.due(lives)
    by_storage: dict[tuple[str, str], dict[str, str]] = defaultdict(dict)
    for (owner, prefix, session_id), hint in due.items():
        by_storage[owner, prefix][session_id] = hint
    with ExitStack() as stack:  # each is done, whatever the others raise
        for (owner, prefix), sessions in by_storage.items():
            stack.callback(_seal, hints, pool, owner, prefix, sessions)


def _seal(
    hints: OwnerHints, pool: ServicePool, owner: str, prefix: str, sessions: Mapping[str, str]
) -> None:
    with acting_for(owner):
        storage = pool.of(owner).get(Storages)[_KINDS[prefix]]
        storage.recovery.seal_each(sessions)
        settled = {
            HintedSession(owner, prefix, session_id): hint
            for session_id, hint in sessions.items()
            if hint and _is_settled(storage, session_id)
        }
    hints.forget(settled)


def _is_settled(storage: ConversationStorage, session_id: str) -> bool:
    """Return whether a session has no turn, and no messages that wait for one."""
    try:
        session, claim = storage.repository.load_claimed(session_id)
    except SessionNotFound:
        return True
    except MochiError:  # sealing it has failed and said why, and is tried again
        return False
    return claim is None and (session.inbox.is_empty or session.inbox.paused is not None)
