"""Claims of a house's sessions, with a catalogue and threads that count."""

import asyncio

from chat.start.claiming import TurnClaimer
from chat.start.turn_request import TurnRequest
from models_app.errors import ModelNotFound
from sessions_app.session import with_metadata
from sessions_app.store.file_repository import FileSessionRepository

HELLO = TurnRequest(message="Hello!")
NOW = "2026-11-21T10:00:00.000000+00:00"


class Known:
    """A catalogue that knows models at once, and others once it has asked; counts what it asks."""

    def __init__(self, model, known=("m",)):
        self.model = model
        self.known = set(known)
        self.asked = []
        self.while_asking = lambda: None

    def resolve(self, name):
        return self, name

    def recall(self, name):
        return self.model.info if name in self.known else None

    async def loaded_window(self, name):
        return None

    async def look_up(self, name):
        self.asked.append(name)
        await asyncio.to_thread(self.while_asking)
        if name == "missing":
            raise ModelNotFound("there is none", model=name)
        return self.model.info


class Threads:
    """Counts the visits to threads."""

    def __init__(self):
        self.visits = 0

    def run(self, work):
        self.visits += 1
        return asyncio.to_thread(work)


def claimer_of(house, **more):
    how = {
        "repository": house.sessions.repository,
        "journal": house.journal,
        "recovery": house.recovery,
        "confirmation_store": house.confirmation_store,
    }
    return TurnClaimer(**{**how, **more})


def choose(house, session_id, model):
    """Change the session's model, as another process does."""
    repository = FileSessionRepository(house.sessions_dir)
    repository.update(session_id, lambda session: with_metadata(session, now=NOW, model=model))


def loaded(house, session_id):
    """Return the session as it is on the disk."""
    return asyncio.to_thread(FileSessionRepository(house.sessions_dir).load, session_id)
