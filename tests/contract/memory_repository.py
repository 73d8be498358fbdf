"""Sessions in memory, kept as an object store keeps them: by compare-and-swap, without locks."""

import threading
from collections.abc import Callable, Sequence

import msgspec

from sessions_app.errors import SessionBusy, SessionExists, SessionNotFound
from sessions_app.ids_and_clock import is_session_id, utc_now
from sessions_app.session import Session, SessionMetadata, counted, require_known_format
from sessions_app.store.repository import (
    Change,
    Check,
    Claim,
    Hold,
    Listing,
    Opening,
    Recover,
    Result,
    listing_of,
)


class MemoryOwners:
    """Processes that live until they are condemned; ``mine`` is one of them.

    Those with the same ``dead`` know of each other.
    """

    def __init__(self, name: str = "owner", dead: set[str] | None = None) -> None:
        self._name = name
        self._number = 0
        self.dead: set[str] = set() if dead is None else dead
        self._calls: list[Callable[[str], None]] = []

    def mine(self) -> str:
        if self._id in self.dead:
            self._take_another_id()
        return self._id

    @property
    def _id(self) -> str:
        return f"{self._name}{self._number}"

    def lives(self, owner: str) -> bool:
        return owner not in self.dead

    def holds(self) -> bool:
        return True

    def when_condemned(self, call: Callable[[str], None]) -> Callable[[], None]:
        self._calls.append(call)
        return lambda: None

    def condemn(self, *, is_told: bool = True) -> None:
        """Give this process up; it may learn of it later, when it asks who it is."""
        self.dead.add(self._id)
        if is_told:
            self._take_another_id()

    def _take_another_id(self) -> None:
        lost, self._number = self._id, self._number + 1
        for call in self._calls:
            call(lost)


class Document(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """What is kept of a session: itself and its claim, swapped together."""

    session: Session
    claim: Claim | None = None


class MemorySessionRepository:
    """Makes every change twice, as if another process had been faster the first time.

    Args:
        owners: Who may claim; processes of its own if None.
        beside: A repository of another process, whose sessions these are, too.

    Attributes:
        reach: Called with the name of each step that another process can see, before it is made.
        loads: How many sessions were read so far.
    """

    keeps_begun = True

    def __init__(
        self,
        owners: MemoryOwners | None = None,
        *,
        beside: "MemorySessionRepository | None" = None,
    ) -> None:
        self.owners = owners or MemoryOwners()
        self.reach: Callable[[str], object] = _pass
        self.loads = 0
        self._documents: dict[str, Document] = beside._documents if beside else {}
        self._deleted: dict[str, str] = beside._deleted if beside else {}
        self._swapping = beside._swapping if beside else threading.Lock()

    # Reading

    def load(self, session_id: str) -> Session:
        self.loads += 1
        return self._get(session_id).session

    def recall(self, session_id: str) -> Session | None:
        return None

    def list(self, *, anew: bool = False) -> Listing:
        sessions = [document.session.metadata for document in self._documents.values()]
        return listing_of(sessions)

    def deleted_at(self, session_id: str) -> str | None:
        return self._deleted.get(session_id)

    def can_hold(self, session: Session) -> bool:
        return True

    # Claims

    def claim(
        self,
        session_id: str,
        turn_id: str,
        *,
        owner: str,
        change: Opening[Result],
        recover: Recover | None = None,
        new: Session | None = None,
    ) -> tuple[Session, Result]:
        claim = Claim(session_id=session_id, turn_id=turn_id, owner=owner, started_at=utc_now())

        def opened(session: Session) -> tuple[Document, Result]:
            require_known_format(session)
            session, result = change(session)
            return Document(session=counted(session), claim=claim), result

        def settled(document: Document) -> tuple[Document, Result]:
            return opened(self._settled(document, recover).session)

        if new is None:
            document, result = self._swap_for(session_id, settled)
        else:
            document, result = opened(new)
            document = self._make(document)
        return document.session, result

    def release(self, session_id: str, hold: Hold) -> None:
        def step(document: Document) -> Document:
            if document.claim is None or document.claim.hold != hold:
                return document
            return Document(session=document.session)

        if session_id in self._documents:
            self._swap(session_id, step)

    def sync_claims(self) -> None:
        pass

    def claim_of(self, session_id: str) -> Claim | None:
        document = self._documents.get(session_id)
        claim = document.claim if document else None
        if claim is None:
            return None
        self.loads += 1
        return self._looked_at(claim)

    def look(self, session_id: str) -> tuple[SessionMetadata, Claim | None]:
        return self.load(session_id).metadata, self.claim_of(session_id)

    def load_claimed(self, session_id: str) -> tuple[Session, Claim | None]:
        return self.load(session_id), self.claim_of(session_id)

    def claims(self) -> Sequence[Claim]:
        claims = [document.claim for document in list(self._documents.values())]
        return [self._looked_at(claim) for claim in claims if claim is not None]

    def _looked_at(self, claim: Claim) -> Claim:
        return msgspec.structs.replace(claim, alive=self.owners.lives(claim.owner))

    # Writing

    def create(self, session: Session) -> None:
        require_known_format(session)
        self._make(Document(session=counted(session)))

    def update(
        self,
        session_id: str,
        change: Change,
        *,
        hold: Hold | None = None,
        release: bool = False,
        begun: Sequence[str] = (),
        owner: str | None = None,
    ) -> Session:
        def step(document: Document) -> Document:
            claim = document.claim
            if hold is not None and (claim is None or claim.hold != hold):
                raise SessionBusy(session_id, claim.turn_id if claim else None)
            if claim is not None and begun:
                claim = msgspec.structs.replace(claim, begun=(*claim.begun, *begun))
            if claim is not None and owner is not None:
                claim = msgspec.structs.replace(claim, owner=owner)
            session = _changed(document.session, change)
            return Document(session=session, claim=None if release else claim)

        return self._swap(session_id, step)

    def update_idle(
        self, session_id: str, change: Change, *, recover: Recover | None = None
    ) -> Session:
        def step(document: Document) -> Document:
            settled = self._settled(document, recover)
            return Document(session=_changed(settled.session, change), claim=settled.claim)

        return self._swap(session_id, step)

    def delete(self, session_id: str, *, check: Check | None = None) -> None:
        self._settled(self._get(session_id), None)
        if check is not None:
            check(self._get(session_id).session)
        self._deleted[session_id] = utc_now()
        del self._documents[session_id]

    def sweep(self) -> int:
        return 0

    def _get(self, session_id: str) -> Document:
        if not is_session_id(session_id) or session_id not in self._documents:
            raise SessionNotFound(session_id)
        return self._documents[session_id]

    def _make(self, document: Document) -> Document:
        session_id = document.session.session_id
        self.reach("swap a session")
        if self._documents.setdefault(session_id, document) is not document:
            raise SessionExists(session_id)
        return document

    def _settled(self, document: Document, recover: Recover | None) -> Document:
        claim = self.claim_of(document.session.session_id)
        if claim is None:
            return document
        if claim.alive:
            raise SessionBusy(claim.session_id, claim.turn_id)
        if recover is None:
            return document
        return Document(session=counted(recover(document.session, claim)))

    def _swap(self, session_id: str, step: Callable[[Document], Document]) -> Session:
        return self._swap_for(session_id, lambda document: (step(document), None))[0].session

    def _swap_for(
        self, session_id: str, step: Callable[[Document], tuple[Document, Result]]
    ) -> tuple[Document, Result]:
        step(self._get(session_id))  # lost to another process
        while True:
            known = self._get(session_id)
            new, result = step(known)
            if new.session == known.session and new.claim == known.claim:
                return known, result
            self.reach("swap a session")
            with self._swapping:
                if self._documents.get(session_id) is known:
                    self._documents[session_id] = new
                    break
        self.reach("have swapped a session")
        return new, result


def _changed(session: Session, change: Change) -> Session:
    require_known_format(session)
    return counted(change(session))


def _pass(step: str) -> None:
    """Do nothing at a step."""
