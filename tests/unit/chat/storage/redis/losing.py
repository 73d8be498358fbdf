"""A connection whose answers get lost when a test says so: Redis did what it was asked."""

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

    What is in ``away`` is not even asked.
    """

    def __init__(self, inner):
        self.inner = inner
        self.client = _LosingClient(self)
        self.lost = []
        self.away = False

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def translated(self):
        return self.inner.translated()

    def script(self, lua):
        run = self.inner.script(lua)

        def call(**arguments):
            if self.away:
                raise redis.ConnectionError("away")
            answer = run(**arguments)
            self.meet(lua)
            return answer

        return call

    def meet(self, what):
        if self.away:
            raise redis.ConnectionError("away")
        for lost in self.lost:
            if lost in what:
                self.lost.remove(lost)
                raise redis.ConnectionError("lost")
