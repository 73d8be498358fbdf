"""Assembles the application of a web process: its lifespan around the guard around Django."""

import asyncio
import gc
import importlib
import ipaddress
import logging
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import lru_cache, partial
from typing import cast

from django.urls import get_resolver

from chat.activity.feed import ActivityFeed
from chat.service import ChatService
from mochi_project.app import (
    ServicePool,
    Services,
    current_pool,
    foreign_apis,
    install_pool,
    mochi_apps,
)
from mochi_project.asgi_types import ASGIApp, Receive, Scope, Send
from mochi_project.background.housekeeping import Housekeeper
from mochi_project.background.supervisor import WorkerSupervisor
from mochi_project.configuration.config import ServerSettings
from mochi_project.configuration.setting_errors import ConfigurationError
from mochi_project.configuration.test_mode import remove_fresh_data_dir, scripted_model
from mochi_project.configuration.variable_names import setting_warnings
from mochi_project.fast_django.handler import AsyncHandler
from mochi_project.guard.guard import Guard
from mochi_project.guard.proxies import TrustedProxies
from mochi_project.http.access_log import AccessLog
from mochi_project.keys.ring import KeyRing
from mochi_project.memory.release import map_large_buffers
from mochi_project.principal import DEFAULT_OWNER
from mochi_project.process.graceful_stop import GracefulStop
from mochi_project.process.loop_watch import watch_loop
from mochi_project.process.model_check import is_first_web_process, warn_without_models
from mochi_project.process.startup import api_token, prepare_data_dir
from mochi_project.reachability import Stores
from mochi_project.telemetry import Telemetry
from models_app.services import SharedModels
from sessions_app.deadline import Deadline

logger = logging.getLogger(__name__)

# Clients waiting for the server check its health first; the warm-up would compete for the GIL.
PAUSE_SECONDS = 0.05


class MochiApplication:
    """Opens the services when the ASGI server starts and closes them when it stops.

    Without lifespan events (``uvicorn --lifespan off``, or mounted in another application) the
    services are opened with the first request and never closed, unless ``running()`` is used. In a
    new event loop, as in tests, they are built again.

    Raises:
        ConfigurationError: A setting of the guard is unusable.
    """

    def __init__(self, settings: ServerSettings) -> None:
        self._settings = settings
        # Build the routes now rather than with the first request, so that errors prevent the start.
        _ = get_resolver().url_patterns
        # Django's stubs want a dict where ASGI promises a mapping.
        self._django = cast("ASGIApp", AsyncHandler())
        token = api_token(settings, on_network=not settings.is_loopback)
        self._keys: KeyRing | None = None
        self._guard = Guard(self._django, settings, token=token, keys=lambda: self._keys)
        # `uvicorn --host 0.0.0.0` is not in the settings; it shows in the connections' addresses.
        self._check_connections = token is None and not settings.insecure_no_auth
        self._network_guard: Guard | None = None
        self._serve: ASGIApp = self._guarded
        if settings.access_log:
            self._serve = AccessLog(self._guarded, TrustedProxies(settings.trusted_proxies))
        for app in mochi_apps():
            self._serve = app.wrapped(self._serve, settings)
        self._opened = AsyncExitStack()
        self._warm_up: asyncio.Task[None] | None = None
        self._supervisor: WorkerSupervisor | None = None
        self._starting = asyncio.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        """The event loop of the services; None without services."""
        self._stopping = False

    def __repr__(self) -> str:
        return f"<MochiApplication for {self._settings.resolved_data_dir}>"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection, or the lifespan."""
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
            return
        if self._loop is not asyncio.get_running_loop():
            await self._start()
        await self._serve(scope, receive, send)

    # Not a coroutine: each resumption of a request passes through all coroutines on its stack.
    def _guarded(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        guard = self._guard
        if self._check_connections and _comes_from_network(scope):
            guard = self._guard_of_network()
        return guard(scope, receive, send)

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        try:
            await self._start()
        except ConfigurationError as error:
            await send({"type": "lifespan.startup.failed", "message": f"mochi-server: {error}"})
            return
        async with self.running():
            await send({"type": "lifespan.startup.complete"})
            await receive()
        await send({"type": "lifespan.shutdown.complete"})

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None, None]:
        """Open the services for the block, for applications that mount this one.

        ASGI servers send lifespan events, which do the same, only to the outermost application.

        Raises:
            ConfigurationError: The data directory can't be used.
        """
        await self._start()
        services = current_pool().shared
        grace_seconds = services.get(ServerSettings).shutdown_grace_seconds
        graceful_stop = GracefulStop(self._drain, services.get(Deadline), grace_seconds)
        graceful_stop.install()
        self._warm_up = asyncio.create_task(self._prepare_for_work())
        chores = [
            asyncio.create_task(services.get(Housekeeper).run()),
            asyncio.create_task(services.get(KeyRing).keep_looking()),
            asyncio.create_task(watch_loop(partial(_sample, current_pool()))),
        ]
        try:
            yield
        finally:
            graceful_stop.uninstall()
            for chore in chores:
                chore.cancel()
            await self._stop()

    async def _start(self) -> None:
        """Open the services, once per event loop.

        Raises:
            RuntimeError: The services are in use in an event loop that runs in another thread.
        """
        loop = asyncio.get_running_loop()
        if self._loop is not None and self._loop is not loop:
            await self._drop_services()
        async with self._starting:
            if self._loop is loop:
                return
            map_large_buffers()
            for sentence in (*setting_warnings(self._settings), *self._settings.trust.notes):
                logger.warning(sentence)
            for note in await asyncio.to_thread(prepare_data_dir, self._settings):
                logger.warning(note)
            settings = await self._opened.enter_async_context(scripted_model(self._settings))
            pool = ServicePool(settings)
            for kind in (Housekeeper, WorkerSupervisor):
                pool.shared.get(kind)  # with all that these use, before the first request
            for note in await asyncio.to_thread(pool.shared.get(Stores).check):
                logger.warning(note)
            await pool.shared.get(Telemetry).open()
            self._keys = pool.shared.get(KeyRing)
            await self._keys.look()
            pool.when_loaded = partial(_go_on, loop)
            pool.of(DEFAULT_OWNER)
            install_pool(pool)
            self._loop = loop

    async def _drop_services(self) -> None:
        """Drop the services of a closed event loop, on which they can't be closed any more."""
        if self._loop is not None and self._loop.is_running():
            raise RuntimeError(
                "this application runs in another event loop; a process can serve it in one"
            )
        self._loop = self._warm_up = None
        self._opened = AsyncExitStack()
        self._starting = asyncio.Lock()
        supervisor, self._supervisor = self._supervisor, None
        if supervisor is not None:
            await asyncio.to_thread(supervisor.stop)

    async def _prepare_for_work(self) -> None:
        """Warm up for the first requests, then start the background worker."""
        services = current_pool().shared
        steps: list[Callable[[], Awaitable[object]]] = [
            partial(asyncio.sleep, PAUSE_SECONDS),
            partial(asyncio.to_thread, importlib.import_module, "structlog"),  # for log lines
            services.get(SharedModels).catalogue.warm_up,
            *(
                partial(asyncio.to_thread, importlib.import_module, o.module)
                for o in foreign_apis()
            ),
        ]
        try:
            for step in steps:
                await step()
                if self._stopping:
                    return
        except Exception:  # the first chat reports the error again
            logger.exception("the warm-up failed")
        gc.freeze()  # these objects are permanent: exclude them from full collections
        try:
            if services.get(ServerSettings).background_worker:
                self._supervisor = services.get(WorkerSupervisor)
                self._supervisor.start()
            if is_first_web_process() and not services.get(ServerSettings).test_mode:
                await warn_without_models(services.get(SharedModels).catalogue)
        except Exception:  # the server answers without it
            logger.exception("the background worker could not be started, or models not looked up")

    async def _drain(self, grace_seconds: float) -> None:
        """End the turns and, at the same time, the task of the background worker."""
        if self._supervisor is not None:
            self._supervisor.begin_stop()
        chats = [each.get(ChatService) for each in current_pool().loaded().values()]
        await asyncio.gather(*(chat.shutdown(grace_seconds) for chat in chats))

    async def _stop(self) -> None:
        """Close what ``_start`` opened, in reverse order; the rest, too, if something fails."""
        self._stopping = True
        if self._warm_up:  # else it could open a client after everything is closed
            self._warm_up.cancel()
            await asyncio.wait([self._warm_up])
        supervisor, self._supervisor = self._supervisor, None
        try:
            async with AsyncExitStack() as stack:
                stack.callback(remove_fresh_data_dir)
                stack.push_async_callback(self._opened.aclose)
                stack.callback(install_pool, None)
                if supervisor:  # it takes seconds: meanwhile the services close
                    stopped = asyncio.create_task(asyncio.to_thread(supervisor.stop))
                    stack.push_async_callback(asyncio.gather, stopped)
                stack.push_async_callback(current_pool().aclose)
        finally:
            self._loop = None
            self._stopping = False

    def _guard_of_network(self) -> Guard:
        """Return the guard for clients on other machines, which need a token."""
        if self._network_guard is None:
            try:
                token = api_token(self._settings, on_network=True)
            except ConfigurationError as error:  # a random token that no client has
                token = secrets.token_urlsafe()
                logger.error("requests come from other machines, and are refused: %s", error)  # noqa: TRY400
            else:
                logger.warning(
                    "requests come from other machines: they need the bearer token in %s "
                    "(set MOCHI_API_TOKEN to choose it)",
                    self._settings.resolved_private_dir / "api_token",
                )
            keys = lambda: self._keys  # noqa: E731
            self._network_guard = Guard(self._django, self._settings, token=token, keys=keys)
        return self._network_guard


def _comes_from_network(scope: Scope) -> bool:
    """Return whether the connection was made to an address that other machines can reach."""
    server = scope.get("server")
    return server is not None and _is_reachable(server[0])


@lru_cache(maxsize=256)
def _is_reachable(address: str) -> bool:
    try:
        return not ipaddress.ip_address(address).is_loopback
    except ValueError:  # a Unix socket, or a test client's made-up name
        return False


def _go_on(loop: asyncio.AbstractEventLoop, services: Services) -> None:
    services.get(ActivityFeed)
    services.get(ChatService).go_on(loop)


def _sample(pool: ServicePool, loop_lag: float) -> None:
    chats = (services.get(ChatService) for services in pool.loaded().values())
    streams = sum(chat.listener_count for chat in chats)
    pool.shared.get(Telemetry).sample(loop_lag=loop_lag, streams=streams)
