"""The names of Tidegate's columns in prepared rows, state rows and closed windows.

Names that two modules share are here; a column of a single operator is named in its module.
The functions at the end make numbered names (``_k0``, ``_k1`` ..).
"""

# A source's row: STRING, the text of a record that could not be read whole, else NULL.
MALFORMED = "_tidegate_malformed"

# A row of a stream that unites several: STRING, the name of the one it is from.
SOURCE = "_tidegate_source"

# A result that another statement reads: BIGINT, the last instant of its window in microseconds.
WINDOW_TIME = "_tidegate_window_time"

# Columns of a source's row that statements do not see.
HIDDEN = (MALFORMED, SOURCE, WINDOW_TIME)
# A source's row, where it comes from a file: STRUCT, Spark's own hidden column.
FILE = "_metadata"

# A prepared row (``engine/rows/prepare.py``).
TIME = "_t"  # BIGINT, its event time in microseconds; NULL if it has none
OWN_TIME = "_own_t"  # BIGINT, its own event time, if TIME can be a fallback
PASS = "_pass"  # BOOLEAN, whether WHERE is true
ERROR = "_err"  # STRING, the first error of the row, or of the results of a closed window
SHARD = "_shard"  # the shard of the watermark that it belongs to; of the expression's type
REINJECTED = "_reinjected"  # BOOLEAN, whether it has gone back to its input before
ROW = "_row"  # STRUCT, the original row, for side output
OPEN, EMIT, WHEN = "_open", "_emit", "_when"  # BOOLEAN, the conditions of a window
DEDUP_KEY = "_dedup"  # any type, the value of dedup_key

# A row of a batch in which some are behind, with lateness = "record" (``engine/rows/lateness.py``).
BEHIND = "_behind"  # BIGINT, the end up to which windows had closed when it came; NULL: no matter

IS_LATE = "_is_late"  # BOOLEAN, of a session's row: whether it is late
# BIGINT, of a session's row: its place among the rows of its key that are behind, see
# ``engine/windows/sessions/record.py``; 0 if there are none before it.
SEQUENCE = "_sequence"
PLACE = "_i"  # BIGINT, its place in the batch, in order of arrival
# Of a partial: the first and the last place of its rows, and the first one of those so late in
# their pane that a window closes which those before them leave open.
FIRST_PLACE, LAST_PLACE, SPLIT_PLACE = "_first_i", "_last_i", "_split_i"

# A judged and placed row.
KEY_PLACE = (
    "_place"  # BIGINT, with dedup_key: its place in the batch; NULL if it is its key's first
)
KEY_TASK = "_task"  # BIGINT, with dedup_key: the task that reads it, from 0
BEYOND = "_beyond"  # BIGINT, its time, if it is beyond the horizon of the first row; else NULL
SINCE = "_since"  # BIGINT, when its key was first seen; only with lateness exact to the record
MARK = "_mark"  # BIGINT, of few duplicates: see ``engine/rows/marks.py``
EVICTED = "_evicted"  # INT, the fate of a row that a quota evicts, where the batch has any
DUPLICATE = "_dup"  # BOOLEAN, whether it is a duplicate, where the batch has any
FATE = "_class"  # INT, its fate (``engine/rows/fates.Fate``)
PANE = "_pane"  # BIGINT, the start of its pane
AFTER = "_after"  # BIGINT, the end up to which windows had closed when it came; NULL: no matter
CAME = "_came"  # STRUCT, of a session's span: when it came, and its own last time
ORDER = "_order"  # STRUCT, orders rows by time and arrival

# Columns of placed rows that are only counted; none of these reaches the state.
ROWS, SEEN_TIME, FALLBACKS = "_rows", "_seen_t", "_fallbacks"
# The hash of a row's shard; of a partial, that of all its rows, NULL if they are of several shards.
SHARD_HASH = "_shard_hash"

# A group, as an operator returns it for a closed window: its bounds, BIGINT.
START, END = "_start_us", "_end_us"
# Only for kinds that have them: what distinguishes windows with equal bounds, and the time of the
# triggering row.
INSTANCE, TRIGGER = "_instance", "_trigger_us"

# A closed window, as the select list, HAVING and ORDER BY refer to it.
WINDOW_START, WINDOW_END = "_start", "_end"  # TIMESTAMP
WINDOW_TRIGGER = "_trigger"  # TIMESTAMP
WINDOW_ID, EPOCH = "_id", "_epoch"  # STRING and BIGINT
FINAL = "_final"  # BOOLEAN, false for a provisional result of a window that is still open

PLACE_IN_TASK = "_place_in_task"  # BIGINT, of a row that is written, if some are sampled

# The functions by which a statement gets them.
WINDOW_FUNCTIONS = {
    "window_start": WINDOW_START,
    "window_end": WINDOW_END,
    "window_id": WINDOW_ID,
    "window_trigger": WINDOW_TRIGGER,
    "emit_epoch": EPOCH,
    "is_final": FINAL,
}
WINDOW_TYPES = {
    WINDOW_START: "TIMESTAMP",
    WINDOW_END: "TIMESTAMP",
    WINDOW_ID: "STRING",
    WINDOW_TRIGGER: "TIMESTAMP",
    EPOCH: "BIGINT",
    FINAL: "BOOLEAN",
}

# A result for a sink that identifies results (``needs_identity`` in ``connectors/protocol.py``).
RESULT_ID = "_tidegate_window_id"  # STRING, the id of its window
RESULT_KEYS = "_tidegate_keys"  # STRUCT of its group keys by their text; absent if it has none
RECORD_KEYS = "_tidegate_record"  # STRUCT of keys of its record by their text; absent if not asked

RANK = "_rank"  # INT, the rank of a result in its window, for LIMIT


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
