"""The names of our own columns: what a prepared row, a state row and a closed window consist of.

A column that only one operator knows is named in its module; every name that two modules share is
here. Numbered names (``_k0``, ``_k1`` ..) are made by the functions at the end.
"""

# A prepared row (``engine/rows/prepare.py``).
TIME = "_t"  # BIGINT, its event time in microseconds; NULL when it has none
OWN_TIME = "_own_t"  # BIGINT, its own event time, where TIME may be that of the source's metadata
PASS = "_pass"  # BOOLEAN, the WHERE clause
ERROR = "_err"  # STRING, the first error of its expressions; of a closed window, of its results
ROW = "_row"  # STRUCT, the original row, for side output
TICK = "_tick"  # BOOLEAN, the row only carries the clock
OPEN, EMIT, WHEN = "_open", "_emit", "_when"  # BOOLEAN, the conditions of a window

# A judged and placed row.
FATE = "_class"  # INT, what becomes of it (``engine/rows/prepare.Fate``)
PANE = "_pane"  # BIGINT, the start of its pane
ORDER = "_order"  # STRUCT, orders rows by time and arrival

# What placed rows bring to the numbers of a batch; none of these reaches the state.
ROWS, SEEN_TIME, FALLBACKS = "_rows", "_seen_t", "_fallbacks"

# A group, what an operator hands over for a closed window: its bounds, BIGINT.
START, END = "_start_us", "_end_us"
# Only of kinds that have them: what tells windows of equal bounds apart, and the triggering row's
# time.
INSTANCE, TRIGGER = "_instance", "_trigger_us"

# A closed window, as the select list, HAVING and ORDER BY name it.
WINDOW_START, WINDOW_END = "_start", "_end"  # TIMESTAMP
WINDOW_TRIGGER = "_trigger"  # TIMESTAMP
WINDOW_ID, EPOCH = "_id", "_epoch"  # STRING and BIGINT

# What a statement calls to get them.
WINDOW_FUNCTIONS = {
    "window_start": WINDOW_START,
    "window_end": WINDOW_END,
    "window_id": WINDOW_ID,
    "window_trigger": WINDOW_TRIGGER,
    "emit_epoch": EPOCH,
}
WINDOW_TYPES = {
    WINDOW_START: "TIMESTAMP",
    WINDOW_END: "TIMESTAMP",
    WINDOW_ID: "STRING",
    WINDOW_TRIGGER: "TIMESTAMP",
    EPOCH: "BIGINT",
}

RANK = "_rank"  # INT, the place of a result in its window, for LIMIT


def key(number: int) -> str:
    """The column of a group key."""
    return f"_k{number}"


def argument(number: int) -> str:
    """The column of a value that is computed for each row."""
    return f"_x{number}"


def aggregate(number: int) -> str:
    """The column of the result of an aggregate."""
    return f"_a{number}"


def partition_key(number: int) -> str:
    """The column of an expression of OVER (PARTITION BY ..)."""
    return f"_p{number}"
