"""A connection whose answers get lost when a test says so: Redis did what it was asked."""

from functools import partial

import redis


class _LosingClient:
    def __init__(self, connection):
        self._connection = connection

    def __getattr__(self, name):
        def call(*arguments, **options):
            answer = getattr(self._connection.inner.client, name)(*arguments, **options)
            self._connection.meet(name)
            return answer

        return call


class LosingConnection:
    """Loses the answers to ``lost``: names of commands, or pieces of scripts, each once.

    What is in ``away`` is not even asked. Of scripts with pieces in ``late`` nobody hears either;
    Redis carries them out at the next ``catch_up``. Those with pieces in ``repeated`` are sent
    twice, as a library does that has lost the first answer.
    """

    def __init__(self, inner):
        self.inner = inner
        self.client = _LosingClient(self)
        self.lost = []
        self.away = False
        self.late = []
        self.repeated = []
        self._waiting = []

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def translated(self):
        return self.inner.translated()

    def run(self, lua, *keys, args=()):
        run = partial(self.inner.run, lua, *keys, args=args)
        with self.translated():
            if self.away:
                raise redis.ConnectionError("away")
            if any(piece in lua for piece in self.late):
                self._waiting.append(run)
                raise redis.TimeoutError("frozen")
            if any(piece in lua for piece in self.repeated):
                run()
            answer = run()
            self.meet(lua)
            return answer

    def catch_up(self):
        """Carry out what was asked while Redis was frozen."""
        self.late = []
        for ask in self._waiting:
            ask()

    def meet(self, what):
        if self.away:
            raise redis.ConnectionError("away")
        for lost in self.lost:
            if lost in what:
                self.lost.remove(lost)
                raise redis.ConnectionError("lost")
