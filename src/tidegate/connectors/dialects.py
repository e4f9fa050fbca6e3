"""SQL of the databases that the JDBC sink writes to: one literal table of dialects."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidegate.errors import ConfigError

if TYPE_CHECKING:
    from tidegate.spark.jdbc import Connection


@dataclass(frozen=True, slots=True, kw_only=True)
class TableColumn:
    """A column of a table: its name and its type there."""

    name: str
    type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Merge:
    """How staged rows become rows of a table.

    Attributes:
        table: the table, as the user wrote it.
        staging: the table with the staged rows; its columns are ``c0``, ``c1`` ..
        columns: the columns of the table, one for each staged column.
        key: the columns whose values one row of the table has; empty: staged rows replace all rows
            of their windows.
        window: the column with the id of the window.
        final: the column that says whether a result is final, None without EMIT EARLY.
    """

    table: str
    staging: str
    columns: Sequence[TableColumn]
    key: Sequence[str]
    window: str
    final: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """What the sink needs to know of a database.

    Attributes:
        types: the type of a column by Spark's type; ``DECIMAL`` gets precision and scale.
        full_name: the schema and the name of a table in the server, quoted; None if there is none.
        lock: makes a statement that lets one transaction at a time pass, by a name.
        array: makes the type of an array from that of its elements, None if it has none.
        longest_name: how many bytes the name of a column may have.
        options: options of the driver that the sink sets unless the user does.
    """

    types: Mapping[str, str]
    array: Callable[[str], str] | None
    longest_name: int
    options: Mapping[str, str]
    check_server: Callable[[Connection], None]
    full_name: Callable[[Connection, str], tuple[str, str] | None]
    lock: Callable[[str], str]
    columns: Callable[[Connection, str], list[TableColumn] | None]
    has_key: Callable[[Connection, str, Sequence[str]], bool]
    key_statement: Callable[[str, Sequence[str]], str]
    create: Callable[[str, Sequence[TableColumn], Sequence[str], str], list[str]]
    stage: Callable[[str, Sequence[str]], list[str]]
    is_staged: Callable[[str], str]
    merge: Callable[[Merge], list[str]]
    leftovers: Callable[[Connection, str], list[str]]


def quoted(name: str) -> str:
    """Return a name in double quotes, as standard SQL writes it."""
    return '"' + name.replace('"', '""') + '"'


def text_sql(value: str) -> str:
    """Return a text as a literal."""
    return "'" + value.replace("'", "''") + "'"


def _names(columns: Sequence[str]) -> str:
    return ", ".join(map(quoted, columns))


# The oldest PostgreSQL in which a unique index can take NULLs for equal.
_OLDEST = 15


def _check_server(connection: Connection) -> None:
    ((number, name),) = connection.rows(
        "SELECT current_setting('server_version_num'), current_setting('server_version')"
    )
    if int(number or 0) // 10_000 < _OLDEST:
        raise ConfigError(
            f"the server is PostgreSQL {name}, and keys that are NULL need {_OLDEST} or later "
            "(UNIQUE NULLS NOT DISTINCT)\n\nWrite to a newer server."
        )


def _columns(connection: Connection, table: str) -> list[TableColumn] | None:
    if connection.rows(f"SELECT to_regclass({text_sql(table)})") == [(None,)]:
        return None
    rows = connection.rows(
        "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute "
        f"WHERE attrelid = to_regclass({text_sql(table)}) AND attnum > 0 AND NOT attisdropped "
        "ORDER BY attnum"
    )
    return [TableColumn(name=str(name), type=str(type_)) for name, type_ in rows]


def _full_name(connection: Connection, table: str) -> tuple[str, str] | None:
    rows = connection.rows(
        "SELECT quote_ident(nspname), quote_ident(relname) FROM pg_class c "
        "JOIN pg_namespace n ON n.oid = relnamespace "
        f"WHERE c.oid = to_regclass({text_sql(table)})"
    )
    return (str(rows[0][0]), str(rows[0][1])) if rows else None


def _lock(name: str) -> str:
    return f"SELECT pg_advisory_xact_lock(hashtextextended({text_sql(name)}, 0))"


def _has_key(connection: Connection, table: str, key: Sequence[str]) -> bool:
    """Whether a unique index has exactly the columns of a key, and takes NULLs for equal."""
    rows = connection.rows(
        "SELECT i.indnullsnotdistinct OR bool_and(a.attnotnull), "
        "string_agg(quote_ident(a.attname), ',' ORDER BY a.attname) "
        "FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY("
        "(i.indkey::int2[])[0:i.indnkeyatts - 1]) "
        f"WHERE i.indrelid = to_regclass({text_sql(table)}) AND i.indisunique AND i.indimmediate "
        "AND i.indisvalid AND i.indpred IS NULL AND i.indexprs IS NULL "
        "GROUP BY i.indexrelid, i.indnullsnotdistinct"
    )
    ((wanted,),) = connection.rows(
        "SELECT string_agg(quote_ident(name), ',' ORDER BY name) FROM "
        f"unnest(ARRAY[{', '.join(map(text_sql, key))}]::name[]) AS name"
    )
    return ("t", wanted) in rows


def _key_statement(table: str, key: Sequence[str]) -> str:
    return f"CREATE UNIQUE INDEX ON {table} ({_names(key)}) NULLS NOT DISTINCT"


def _create(
    table: str, columns: Sequence[TableColumn], key: Sequence[str], window: str
) -> list[str]:
    lines = [f"{quoted(column.name)} {column.type}" for column in columns]
    if key:
        lines.append(f"UNIQUE NULLS NOT DISTINCT ({_names(key)})")
    made = f"CREATE TABLE {table} ({', '.join(lines)})"
    return [made] if key else [made, f"CREATE INDEX ON {table} ({quoted(window)})"]


def _stage(staging: str, types: Sequence[str]) -> list[str]:
    """Make a table for rows on their way; a task that runs twice leaves its rows there twice.

    A task writes in one transaction, so ``attempt`` tells its runs apart. The table is not logged:
    after a crash of the server it is empty, and lacks the row that is put there first.
    """
    columns = "".join(f", c{number} {type_}" for number, type_ in enumerate(types))
    return [
        f"CREATE UNLOGGED TABLE {staging} (task int NOT NULL, "
        f"attempt bigint NOT NULL DEFAULT pg_current_xact_id()::text::bigint{columns})",
        f"INSERT INTO {staging} (task) VALUES (-1)",
    ]


def _is_staged(staging: str) -> str:
    return f"SELECT 1 FROM {staging} WHERE task = -1"


def _merge(merge: Merge) -> list[str]:
    names = [column.name for column in merge.columns]
    values = ", ".join(
        f"CAST(c{number} AS {column.type})" for number, column in enumerate(merge.columns)
    )
    # One run of each task; any one is complete.
    staged = (
        f"{merge.staging} JOIN (SELECT task, min(attempt) AS attempt FROM {merge.staging} "
        "WHERE task >= 0 GROUP BY task) AS one USING (task, attempt)"
    )
    insert = f"INSERT INTO {merge.table} AS kept ({_names(names)}) SELECT {values} FROM {staged}"
    # Two writers of one table wait for each other here, instead of for single rows.
    lock = f"SELECT pg_advisory_xact_lock(to_regclass({text_sql(merge.table)})::oid::bigint)"
    if not merge.key:
        number = names.index(merge.window)
        ids = f"SELECT CAST(c{number} AS {merge.columns[number].type}) FROM {staged}"
        delete = f"DELETE FROM {merge.table} WHERE {quoted(merge.window)} IN ({ids})"
        return [lock, delete, insert]
    changed = [quoted(name) for name in names if name not in merge.key]
    if not changed:
        return [lock, f"{insert} ON CONFLICT ({_names(merge.key)}) DO NOTHING"]
    updates = ", ".join(f"{name} = excluded.{name}" for name in changed)
    update = f"{insert} ON CONFLICT ({_names(merge.key)}) DO UPDATE SET {updates}"
    if merge.final is not None:
        # A provisional result that comes late does not replace the final one.
        final = quoted(merge.final)
        update += f" WHERE excluded.{final} OR NOT kept.{final}"
    return [lock, update]


def _leftovers(connection: Connection, prefix: str) -> list[str]:
    rows = connection.rows(
        "SELECT quote_ident(nspname) || '.' || quote_ident(relname) FROM pg_class "
        "JOIN pg_namespace n ON n.oid = relnamespace "
        f"WHERE relkind = 'r' AND starts_with(relname, {text_sql(prefix)})"
    )
    return [str(name) for (name,) in rows]


# Databases that are refused by name, and why they are none of ``DIALECTS``.
_UNIQUE = (
    "its unique indexes take NULLs for different and, as a rule, a and A for the same, so results "
    "with such keys would be doubled or mixed up"
)
UNTRIED = {
    "mysql": f"MySQL, which is not supported: {_UNIQUE}",
    "mariadb": f"MariaDB, which is not supported: {_UNIQUE}",
    "oracle": "Oracle, which has not been tried",
    "sqlserver": "SQL Server, which has not been tried",
    "db2": "Db2, which has not been tried",
}

# By the second part of the URL: ``jdbc:postgresql://..``.
DIALECTS = {
    "postgresql": Dialect(
        types={
            "BOOLEAN": "boolean",
            "TINYINT": "smallint",
            "SMALLINT": "smallint",
            "INT": "integer",
            "BIGINT": "bigint",
            "FLOAT": "real",
            "DOUBLE": "double precision",
            "DECIMAL": "numeric",
            "STRING": "text",
            "BINARY": "bytea",
            "DATE": "date",
            "TIMESTAMP": "timestamp with time zone",
            "TIMESTAMP_NTZ": "timestamp without time zone",
        },
        array="{}[]".format,
        longest_name=63,
        options={"reWriteBatchedInserts": "true"},
        check_server=_check_server,
        full_name=_full_name,
        lock=_lock,
        columns=_columns,
        has_key=_has_key,
        key_statement=_key_statement,
        create=_create,
        stage=_stage,
        is_staged=_is_staged,
        merge=_merge,
        leftovers=_leftovers,
    ),
}
