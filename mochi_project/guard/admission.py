"""Decides who a request acts for: by a key, a token, a proxy, or by being on this machine."""

import hashlib
import hmac
import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from mochi_project.asgi_types import Scope
from mochi_project.configuration.config import ServerSettings
from mochi_project.errors import messages
from mochi_project.guard.proxies import TrustedProxies, proxy_header
from mochi_project.guard.refusal import Refused
from mochi_project.keys.key import USUAL_SCOPES, ScopeMissing
from mochi_project.keys.ring import KeyRing, is_key_token
from mochi_project.principal import DEFAULT_OWNER, OPERATOR, InvalidOwner, Principal, is_owner

KEY_HEADERS = (b"x-api-key", b"api-key")
"""Further headers for the token, as sent by clients of Anthropic and Azure."""
ACT_FOR = b"x-mochi-owner"
PROXY_SECRET = b"x-mochi-proxy-secret"

_HASH_DIGITS = 6
_LONGEST_SLUG = 64 - 1 - _HASH_DIGITS
_is_hashed = re.compile(rf".*-[0-9a-f]{{{_HASH_DIGITS}}}").fullmatch

Head = Mapping[bytes, bytes]

logger = logging.getLogger(__name__)


class Admission:
    """Finds the principal of requests (docs/decisions/0206).

    Args:
        settings: The configuration of proxies.
        proxies: The trusted ones.
        token: The token of who runs the server; None without.
        keys: Returns the keys, once there are services.
    """

    def __init__(
        self,
        settings: ServerSettings,
        proxies: TrustedProxies,
        token: str | None,
        keys: Callable[[], KeyRing | None],
    ) -> None:
        self._proxies = proxies
        self._token = token.encode() if token else None
        self._keys = keys
        secret = settings.owner_header_secret
        self._owner_header = (settings.owner_header or "").lower().encode()
        self._secret = secret.get_secret_value().encode() if secret is not None else b""
        self._proxies_let_in = settings.proxies_authenticate and not self._owner_header
        self._was_told_so = "proxies_authenticate" in settings.model_fields_set
        self.headers = frozenset({ACT_FOR, PROXY_SECRET, self._owner_header} - {b""})
        """The headers beside those of a token that say who acts, none of which may be repeated."""

    async def principal_of(self, scope: Scope, head: Head) -> Principal:
        """Return who a request acts for.

        Raises:
            Refused: Nobody, or it says several things about that.
        """
        ring = self._keys()
        if ring is not None:
            await ring.fresh()
        named = self._named_by_proxy(scope, head)
        given = tuple(_given_tokens(head))
        acting = self._by_token(given, ring)
        if acting is None and ring is not None and any(map(is_key_token, given)):
            await ring.look()  # it may be new
            acting = self._by_token(given, ring)
        if named is None:
            acting = acting or self._without_token(scope, given, ring)
        elif acting is None:
            acting = Principal(named, frozenset(USUAL_SCOPES))
        elif acting.owner != named:
            raise Refused(
                "BAD_REQUEST",
                f"The proxy says that this is {named}, and the token is one of another owner: "
                "send one of them.",
            )
        return acting if ACT_FOR not in head else _acting_for(head[ACT_FOR], acting, scope)

    def _by_token(self, tokens: Sequence[bytes], ring: KeyRing | None) -> Principal | None:
        """Return the principal of the tokens of a request, one of which may be a dummy."""
        found: set[Principal] = set()
        has_ended = False
        for given in tokens:
            if self._token is not None and hmac.compare_digest(given, self._token):
                found.add(OPERATOR)
            elif ring is not None and (key := ring.key_of(given)) is not None:
                has_ended = ring.has_ended(key)
                found.update(() if has_ended else {key.principal})
        if len(found) > 1:
            raise Refused("BAD_REQUEST", "The request has tokens of several keys: send one.")
        if has_ended and not found:
            raise Refused("UNAUTHENTICATED", messages.KEY_ENDED)
        return next(iter(found), None)

    def _without_token(
        self, scope: Scope, tokens: Sequence[bytes], ring: KeyRing | None
    ) -> Principal:
        """Return the principal of a request without a token that is right.

        Who sends a key never acts for another owner because it is not known, or not yet.
        Of a trusted proxy only what it passed on needs no token: other programs at its address
        are no clients that it let in (docs/decisions/0161).
        """
        closes = bool(self._owner_header) or (ring is not None and ring.closes)
        has_key = any(map(is_key_token, tokens))
        header = proxy_header(scope["headers"])
        if (
            header is not None
            and not has_key
            and self._proxies_let_in
            and (self._was_told_so or not closes)
            and self._proxies.trust_peer_of(scope)
        ):
            return OPERATOR
        if self._token is not None or closes or has_key:
            raise Refused("UNAUTHENTICATED", messages.AUTHENTICATION_REQUIRED)
        if header is not None:
            raise Refused(
                "FORBIDDEN",
                f"A proxy passed this request on (it has the header {header}), and this server "
                "asks for no token: set MOCHI_API_TOKEN, or, if the proxy lets in only whom you "
                "trust, name it in MOCHI_TRUSTED_PROXIES, without "
                "MOCHI_PROXIES_AUTHENTICATE=false.",
            )
        return OPERATOR

    def _named_by_proxy(self, scope: Scope, head: Head) -> str | None:
        """Return the owner that a trusted proxy names; None if nobody names one.

        Raises:
            Refused: Somebody else does, or it is no name.
        """
        if not self._owner_header or not (self._owner_header in head or PROXY_SECRET in head):
            return None
        is_proxy = self._proxies.trust_peer_of(scope)
        if not hmac.compare_digest(head.get(PROXY_SECRET, b""), self._secret) or not is_proxy:
            raise Refused("BAD_REQUEST", "Only a trusted proxy may say who sends a request.")
        owner = owner_of(head.get(self._owner_header, b"").decode("utf-8", "replace").strip())
        if owner is None:
            raise Refused("BAD_REQUEST", "The proxy names nobody who can be an owner.")
        return owner


def owner_of(name: str) -> str | None:
    """Return the owner that a proxy means by a name or an e-mail address; None if it is neither.

    What comes from an address ends with a part of its hash, so that two don't become one; a name
    that looks so gets one, too, or it could be chosen to mean somebody's address.
    """
    lowered = name.lower() if name.isascii() else name  # some letters become others' by that
    is_address = "@" in name
    if not is_address and not (_is_hashed(name) and name == lowered):
        return name if is_owner(name) and name != DEFAULT_OWNER else None
    slug = re.sub(r"[^a-z0-9._-]", "-", lowered).lstrip("._-")
    if not slug or len(slug) > _LONGEST_SLUG:
        return None
    digest = hashlib.sha256(lowered.encode()).hexdigest()
    return f"{slug}-{digest[:_HASH_DIGITS]}"


def _acting_for(name: bytes, principal: Principal, scope: Scope) -> Principal:
    """Return the principal of an admin who acts for another owner."""
    if "admin" not in principal.scopes:
        raise Refused.of(ScopeMissing("admin"))
    try:
        acting = replace(principal, owner=name.decode("latin-1"))
    except InvalidOwner as error:
        raise Refused("BAD_REQUEST", str(error)) from error
    admin = f"key {principal.key_id}" if principal.key_id else "the operator"
    logger.info("%s acts for %s: %s %s", admin, acting.owner, scope["method"], scope["path"])
    return acting


def _given_tokens(head: Head) -> Iterator[bytes]:
    """Yield all tokens of a request, since clients may send a dummy in one of the headers."""
    scheme, _, given = head.get(b"authorization", b"").partition(b" ")
    if scheme.lower() == b"bearer":
        yield given.strip()
    for name in KEY_HEADERS:
        if name in head:
            yield head[name].strip()
