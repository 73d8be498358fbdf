"""Decides what happens next in a turn: a table from state and input to the next state and actions.

Pure: no await and no I/O. ``engine.py`` performs the actions and reports their results.
A missing entry is a defect of the engine, never of a model or a client.
"""

from enum import StrEnum, auto


class State(StrEnum):
    """The states of a turn."""

    STARTING = "starting"
    PLANNING = "planning"  # an agent's model writes its plan, without tools
    ANNOUNCING = "announcing"  # an agent's first answer after that; it may only announce its work
    GENERATING = "generating"
    AWAITING_CONFIRMATION = "awaiting_confirmation"
    RUNNING_TOOLS = "running_tools"
    COMPLETED = "completed"
    CANCELLED = "cancelled"
    FAILED = "failed"
    INTERRUPTED = "interrupted"
    UNSAVED = "unsaved"  # what it left could not be saved; the next to open its session seals it
    LOST = "lost"  # others took its process for dead, and end it
    HANDED_OVER = "handed_over"  # its process stops, and another one goes on with it
    SUSPENDED = "suspended"  # its calls wait for an approval, and no listener could give it

    @property
    def is_final(self) -> bool:
        """Return whether the turn has ended, except for saving and reporting."""
        return self in FINAL

    @property
    def goes_on_elsewhere(self) -> bool:
        """Return whether another process ends the turn."""
        return self in {State.LOST, State.HANDED_OVER}

    @property
    def asks_model(self) -> bool:
        """Return whether the turn waits for its model."""
        return self in {State.PLANNING, State.ANNOUNCING, State.GENERATING}

    @property
    def pauses(self) -> str | None:
        """Why messages that wait are not answered after this end; None if they are."""
        return {State.CANCELLED: "cancelled", State.FAILED: "failed"}.get(self)

    @property
    def status(self) -> str:
        """The state as ``/status`` shows it."""
        return State.GENERATING.value if self.asks_model else self.value


class Input(StrEnum):
    """The inputs of the table: what can happen to a turn."""

    HISTORY_ENDS_OPEN = auto()  # the history ends with tool calls that have no result
    HISTORY_READY = auto()
    ANSWER_BEGUN = auto()  # as HISTORY_READY, and the model goes on in the middle of its answer
    PLAN_WANTED = auto()  # as HISTORY_READY, for an agent
    ANSWERED = auto()  # also with calls of the client's tools, and no others
    ANSWERED_EMPTY = auto()
    ASKED_FOR_TOOLS = auto()
    CALLS_DECIDED = auto()  # approved, denied, or no approval needed
    NOBODY_TO_ASK = auto()
    TOOLS_RETURNED = auto()
    LEFT_TO_CLIENT = auto()  # as TOOLS_RETURNED, but the client has calls of its own to run
    ROUNDS_USED_UP = auto()  # as TOOLS_RETURNED, but the model must not be asked again
    CANCEL_REQUESTED = auto()
    ERROR = auto()
    SHUTDOWN = auto()  # also a cancelled task that nothing asked to stop
    HAND_OVER = auto()  # as SHUTDOWN, for a turn with which another process goes on
    LOST = auto()  # the turn is not this process's any more


class Action(StrEnum):
    """Actions of the engine on entering a state; the last one of a list reports an input."""

    ASK_FOR_PLAN = auto()
    ASK_MODEL = auto()
    CONTINUE_ANSWER = auto()
    DROP_CALLS = auto()  # made up: no tools were offered
    ASK_APPROVAL = auto()
    RUN_TOOLS = auto()
    SAVE_ROUND = auto()
    SAVE_ANSWER = auto()
    SAVE_CANCELLED = auto()
    SAVE_INTERRUPTED = auto()
    LEAVE = auto()  # claim and journal, as a process that is killed leaves them
    BLAME_EMPTY_ANSWER = auto()  # as the error that ended the turn
    BLAME_ROUND_LIMIT = auto()
    TAKE_STEERS = auto()  # messages that people sent meanwhile, for the next request
    REPORT_CONTINUATION = auto()
    REPORT_COMPLETE = auto()
    REPORT_CANCELLED = auto()
    REPORT_ERROR = auto()
    REPORT_SUSPENDED = auto()
    NOTE_HAND_OVER = auto()  # in the journal, which the next process continues
    REPORT_LOSS = auto()  # by ending its stream; nothing is saved


FINAL = frozenset(
    {
        State.COMPLETED,
        State.CANCELLED,
        State.FAILED,
        State.INTERRUPTED,
        State.UNSAVED,
        State.LOST,
        State.HANDED_OVER,
        State.SUSPENDED,
    }
)

Step = tuple[State, tuple[Action, ...]]

_CANCEL: Step = (State.CANCELLED, (Action.SAVE_CANCELLED, Action.REPORT_CANCELLED))
_COMPLETE: Step = (State.COMPLETED, (Action.SAVE_ANSWER, Action.REPORT_COMPLETE))
_ERROR: Step = (State.FAILED, (Action.SAVE_INTERRUPTED, Action.REPORT_ERROR))
_EMPTY: Step = (State.FAILED, (Action.BLAME_EMPTY_ANSWER, *_ERROR[1]))
_LIMIT: Step = (State.FAILED, (Action.BLAME_ROUND_LIMIT, *_ERROR[1]))
_SHUTDOWN: Step = (State.INTERRUPTED, (Action.SAVE_INTERRUPTED, Action.REPORT_ERROR))
_UNSAVED: Step = (State.UNSAVED, (Action.LEAVE, Action.REPORT_ERROR))
_DECIDE: Step = (State.AWAITING_CONFIRMATION, (Action.SAVE_ROUND, Action.ASK_APPROVAL))
_ANNOUNCE: Step = (State.ANNOUNCING, (Action.SAVE_ROUND, Action.ASK_MODEL))
_WORK: Step = (State.GENERATING, (Action.SAVE_ROUND, Action.ASK_MODEL))
_LOST: Step = (State.LOST, (Action.REPORT_LOSS,))
_HAND_OVER: Step = (State.HANDED_OVER, (Action.NOTE_HAND_OVER, Action.REPORT_LOSS))
_STOPS = {
    Input.CANCEL_REQUESTED: _CANCEL,
    Input.ERROR: _ERROR,
    Input.SHUTDOWN: _SHUTDOWN,
    Input.HAND_OVER: _HAND_OVER,
    Input.LOST: _LOST,
}
_UNSAVABLE = {Input.ERROR: _ERROR, Input.SHUTDOWN: _ERROR, Input.LOST: _LOST}
_UNENDED = {Input.ERROR: _UNSAVED, Input.SHUTDOWN: _UNSAVED, Input.LOST: _LOST}

TRANSITIONS: dict[State, dict[Input, Step]] = {
    State.STARTING: {
        Input.HISTORY_READY: (State.GENERATING, (Action.ASK_MODEL,)),
        Input.ANSWER_BEGUN: (State.GENERATING, (Action.CONTINUE_ANSWER,)),
        Input.PLAN_WANTED: (State.PLANNING, (Action.ASK_FOR_PLAN,)),
        Input.HISTORY_ENDS_OPEN: (State.AWAITING_CONFIRMATION, (Action.ASK_APPROVAL,)),
        **_STOPS,
    },
    State.PLANNING: {
        Input.ANSWERED: _ANNOUNCE,
        Input.ANSWERED_EMPTY: _ANNOUNCE,
        Input.ASKED_FOR_TOOLS: (State.ANNOUNCING, (Action.DROP_CALLS, *_ANNOUNCE[1])),
        **_STOPS,
    },
    State.ANNOUNCING: {
        Input.ANSWERED: _WORK,
        Input.ANSWERED_EMPTY: _WORK,
        Input.ASKED_FOR_TOOLS: _DECIDE,
        **_STOPS,
    },
    State.GENERATING: {
        Input.ANSWERED: _COMPLETE,
        Input.ANSWERED_EMPTY: _EMPTY,
        Input.ASKED_FOR_TOOLS: _DECIDE,
        **_STOPS,
    },
    State.AWAITING_CONFIRMATION: {
        Input.CALLS_DECIDED: (State.RUNNING_TOOLS, (Action.RUN_TOOLS,)),
        Input.NOBODY_TO_ASK: (State.SUSPENDED, (Action.REPORT_SUSPENDED,)),
        **_STOPS,
    },
    State.RUNNING_TOOLS: {
        Input.TOOLS_RETURNED: (
            State.GENERATING,
            (Action.TAKE_STEERS, Action.REPORT_CONTINUATION, Action.ASK_MODEL),
        ),
        Input.NOBODY_TO_ASK: (State.SUSPENDED, (Action.REPORT_SUSPENDED,)),  # an agent's call
        Input.LEFT_TO_CLIENT: _COMPLETE,
        Input.ROUNDS_USED_UP: _LIMIT,
        **_STOPS,
    },
    # What should have been saved could not be: that is an error after all.
    State.COMPLETED: _UNSAVABLE,
    State.CANCELLED: _UNSAVABLE,
    State.SUSPENDED: _UNSAVABLE,
    # Saving what is left of a broken turn is an attempt: where it fails, nothing else is written
    # (docs/decisions/0028).
    State.INTERRUPTED: _UNENDED,
    State.FAILED: _UNENDED,
    State.UNSAVED: {},
    State.LOST: {},
    State.HANDED_OVER: {},
}


class ImpossibleTransition(Exception):
    """An input was reported that can't happen in this state."""


def transition(state: State, trigger: Input) -> Step:
    """Return the next state and the actions on entering it.

    Raises:
        ImpossibleTransition: The table has no entry.
    """
    try:
        return TRANSITIONS[state][trigger]
    except KeyError:
        raise ImpossibleTransition(f"{trigger.name} in state {state.name}") from None


class TurnMachine:
    """Takes one turn through the table.

    Args:
        max_rounds: The number of rounds after which results of tools end the turn with an error.
        rounds: The rounds in other processes.

    Attributes:
        state: The current state.
        rounds: The number of rounds so far.
        stop: The input of a request to stop the turn early; None without one.
        lets_go: Whether the turn is handed over before its next round.
    """

    def __init__(self, max_rounds: int, rounds: int = 0) -> None:
        self.state = State.STARTING
        self.rounds = rounds
        self.stop: Input | None = None
        self.lets_go = False
        self._max_rounds = max_rounds

    @property
    def stopping(self) -> Input | None:
        """Return the input that stops the turn, if the turn can still be stopped.

        Asked in addition to the cancellation, which libraries may swallow: on Python 3.11 even
        ``asyncio.wait_for`` does.
        """
        return None if self.stop is None or self.state.is_final else self.stop

    @property
    def asks_again(self) -> bool:
        """Return whether the model is asked again once the running calls have their results."""
        return self.rounds < self._max_rounds and not self.lets_go

    def take(self, trigger: Input) -> tuple[Action, ...]:
        """Move to the next state and return the actions on entering it.

        Raises:
            ImpossibleTransition: The table has no entry.
        """
        if trigger is Input.TOOLS_RETURNED and self.rounds >= self._max_rounds:
            trigger = Input.ROUNDS_USED_UP
        elif trigger is Input.TOOLS_RETURNED and self.lets_go:
            trigger = Input.HAND_OVER
        self.state, actions = transition(self.state, trigger)
        self.rounds += self.state.asks_model
        return actions

    def give_up(self) -> None:
        """End a turn that the table could not end because of a defect."""
        self.state = State.UNSAVED
