"""The turn as a table. Rule 1: everything that decides what happens next is in this file.

No await and no I/O: ``engine.py`` performs the actions and reports back what came of them.
A missing entry in the table is a defect of the engine, never of a model or a client.
"""

from enum import Enum, auto


class State(Enum):
    """Where a turn is. The values are what ``/status`` shows."""

    STARTING = "starting"
    GENERATING = "generating"
    AWAITING_CONFIRMATION = "awaiting_confirmation"
    RUNNING_TOOLS = "running_tools"
    COMPLETED = "completed"
    CANCELLED = "cancelled"
    FAILED = "failed"
    INTERRUPTED = "interrupted"
    UNSAVED = "unsaved"  # what it left could not be saved: whoever comes next seals it
    SUSPENDED = "suspended"  # its calls wait for an approval, and nobody listens who could give it


class Input(Enum):
    """What can happen to a turn."""

    HISTORY_ENDS_OPEN = auto()  # the history ends with tool calls that nobody answered
    HISTORY_READY = auto()
    ANSWERED = auto()
    ANSWERED_FOR_NOW = auto()  # an agent's plan, or its announcement of what it is about to do
    ASKED_FOR_TOOLS = auto()
    CALLS_DECIDED = auto()  # approved, denied, or no approval needed
    NOBODY_TO_ASK = auto()
    TOOLS_RETURNED = auto()
    ROUNDS_USED_UP = auto()
    CANCEL_REQUESTED = auto()
    ERROR = auto()
    SHUTDOWN = auto()


class Action(Enum):
    """What the engine does on entering a state. The last action of a list reports an input."""

    ASK_MODEL = auto()
    ASK_APPROVAL = auto()
    RUN_TOOLS = auto()
    SAVE_ROUND = auto()
    SAVE_ANSWER = auto()
    SAVE_CANCELLED = auto()
    SAVE_INTERRUPTED = auto()
    LEAVE = auto()  # claim and journal, as a process that is killed leaves them
    REPORT_COMPLETE = auto()
    REPORT_CANCELLED = auto()
    REPORT_ERROR = auto()
    REPORT_SUSPENDED = auto()


FINAL = frozenset(
    {
        State.COMPLETED,
        State.CANCELLED,
        State.FAILED,
        State.INTERRUPTED,
        State.UNSAVED,
        State.SUSPENDED,
    }
)

_CANCEL = (State.CANCELLED, (Action.SAVE_CANCELLED, Action.REPORT_CANCELLED))
_ERROR = (State.FAILED, (Action.SAVE_INTERRUPTED, Action.REPORT_ERROR))
_SHUTDOWN = (State.INTERRUPTED, (Action.SAVE_INTERRUPTED, Action.REPORT_ERROR))
_UNSAVED = (State.UNSAVED, (Action.LEAVE, Action.REPORT_ERROR))
_STOPS = {Input.CANCEL_REQUESTED: _CANCEL, Input.ERROR: _ERROR, Input.SHUTDOWN: _SHUTDOWN}

TRANSITIONS: dict[State, dict[Input, tuple[State, tuple[Action, ...]]]] = {
    State.STARTING: {
        Input.HISTORY_READY: (State.GENERATING, (Action.ASK_MODEL,)),
        Input.HISTORY_ENDS_OPEN: (State.AWAITING_CONFIRMATION, (Action.ASK_APPROVAL,)),
        **_STOPS,
    },
    State.GENERATING: {
        Input.ANSWERED: (State.COMPLETED, (Action.SAVE_ANSWER, Action.REPORT_COMPLETE)),
        Input.ANSWERED_FOR_NOW: (State.GENERATING, (Action.SAVE_ROUND, Action.ASK_MODEL)),
        Input.ASKED_FOR_TOOLS: (
            State.AWAITING_CONFIRMATION,
            (Action.SAVE_ROUND, Action.ASK_APPROVAL),
        ),
        **_STOPS,
    },
    State.AWAITING_CONFIRMATION: {
        Input.CALLS_DECIDED: (State.RUNNING_TOOLS, (Action.RUN_TOOLS,)),
        Input.NOBODY_TO_ASK: (State.SUSPENDED, (Action.REPORT_SUSPENDED,)),
        **_STOPS,
    },
    State.RUNNING_TOOLS: {
        Input.TOOLS_RETURNED: (State.GENERATING, (Action.ASK_MODEL,)),
        Input.NOBODY_TO_ASK: (State.SUSPENDED, (Action.REPORT_SUSPENDED,)),  # an agent's call
        Input.ROUNDS_USED_UP: _ERROR,
        **_STOPS,
    },
    # What should have been saved could not be: that is an error after all.
    State.COMPLETED: {Input.ERROR: _ERROR},
    State.CANCELLED: {Input.ERROR: _ERROR},
    State.SUSPENDED: {Input.ERROR: _ERROR},
    # Saving what is left of a broken turn is an attempt: where it fails, nothing else is written.
    State.INTERRUPTED: {Input.ERROR: _UNSAVED},
    State.FAILED: {Input.ERROR: _UNSAVED},
    State.UNSAVED: {},
}


class ImpossibleTransition(Exception):
    """The engine reported something that can't happen in this state."""


def transition(state: State, given: Input) -> tuple[State, tuple[Action, ...]]:
    """Return the next state and what to do on entering it.

    Raises:
        ImpossibleTransition: The table has no entry.
    """
    try:
        return TRANSITIONS[state][given]
    except KeyError:
        raise ImpossibleTransition(f"{given.name} in state {state.name}") from None
