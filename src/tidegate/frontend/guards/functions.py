"""Tables of Spark's functions: their parameters, their results, and how they can fail.

A function that is in none of these tables is assumed to fail on any value.

Parameters are one letter each; the last one also applies to all further arguments:

    a  anything            n  a number (DOUBLE)      d  a DATE
    s  text, or anything   i  an INT                 t  a TIMESTAMP
       that becomes text   l  a BIGINT               v  a number that keeps its type
    c  a literal           p  a pattern: a literal   z  a literal other than 0

Text passed as n, d, t, i or l, and a BIGINT passed as i, is cast, which can fail. If an argument
for c, p or z is not such a literal, the call can fail.

Results: a type; ``=`` for the type of the first argument, ``element`` for that of its elements,
``common`` for the common type of all arguments, ``?`` for an unknown type.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.plan.guarded import INVALID_ARGUMENT, INVALID_CAST, OVERFLOW


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """Parameters and result of a function that fails only if the cast of an argument fails."""

    parameters: str
    result: str

    def parameter(self, place: int) -> str:
        """Return the letter of a parameter."""
        return self.parameters[min(place, len(self.parameters) - 1)] if self.parameters else "a"


@dataclass(frozen=True, slots=True, kw_only=True)
class Twin:
    """A function and its form that returns NULL on failure, and otherwise only for NULL."""

    name: str
    parameters: str
    result: str
    reason: str


# (result, parameters, names)
_ROWS = (
    (
        "STRING",
        "s",
        "lower upper lcase ucase initcap trim ltrim rtrim btrim soundex md5 sha sha1 base64 quote "
        "url_encode make_valid_utf8 translate replace collation",
    ),
    ("STRING", "a", "hex typeof to_json to_csv to_xml schema_of_variant concat_ws"),
    ("STRING", "l", "chr char bin"),
    ("STRING", "ssi", "substring_index"),
    ("STRING", "sii", "substr substring left right"),
    ("STRING", "scs", "lpad rpad"),
    ("STRING", "sc", "repeat collate mask"),
    ("STRING", "c", "space"),
    ("STRING", "ssz", "split_part"),
    ("STRING", "tp", "date_format"),
    ("STRING", "lp", "from_unixtime"),
    ("STRING", "d", "dayname monthname"),
    ("STRING", "vc", "format_number"),
    ("STRING", "ca", "format_string printf"),
    ("STRING", "ac", "to_char to_varchar"),
    ("STRING", "ss", "get_json_object"),
    ("STRING", "si", "sha2"),
    ("STRING", "sp", "regexp_substr"),
    ("STRING", "", "uuid version user current_user session_user current_catalog current_database"),
    ("STRING", "", "current_schema current_timezone input_file_name"),
    ("INT", "s", "length len char_length character_length bit_length octet_length ascii"),
    ("INT", "s", "find_in_set instr json_array_length"),
    ("INT", "ssi", "locate position levenshtein"),
    ("INT", "sp", "regexp_count regexp_instr"),
    ("INT", "a", "hash size cardinality array_size bit_count"),
    ("INT", "d", "year quarter month day dayofmonth dayofweek dayofyear weekday weekofyear"),
    ("INT", "d", "unix_date"),
    ("INT", "dd", "datediff date_diff"),
    ("INT", "t", "hour minute second"),
    ("INT", "", "spark_partition_id"),
    ("BIGINT", "s", "crc32"),
    ("BIGINT", "a", "xxhash64 array_position unix_micros unix_millis unix_seconds"),
    ("BIGINT", "i", "factorial"),
    ("BIGINT", "l", "bitmap_bit_position bitmap_bucket_number"),
    ("BIGINT", "nnnl", "width_bucket"),
    ("BIGINT", "", "monotonically_increasing_id input_file_block_start input_file_block_length"),
    ("BOOLEAN", "s", "contains startswith endswith is_valid_utf8 luhn_check"),
    ("BOOLEAN", "spc", "like ilike"),
    ("BOOLEAN", "sp", "rlike regexp regexp_like"),
    ("BOOLEAN", "a", "isnull isnotnull array_contains arrays_overlap map_contains_key"),
    ("BOOLEAN", "a", "is_variant_null"),
    ("BOOLEAN", "n", "isnan"),
    (
        "DOUBLE",
        "n",
        "sqrt exp expm1 ln log log10 log1p log2 pow power sin cos tan cot sec csc asin acos atan "
        "atan2 sinh cosh tanh asinh acosh atanh cbrt degrees radians hypot rint nanvl",
    ),
    ("DOUBLE", "t", "months_between"),
    ("DOUBLE", "", "pi e rand randn random"),
    ("DOUBLE", "v", "sign signum"),
    ("=", "v", "shiftleft shiftright shiftrightunsigned positive"),
    ("BINARY", "s", "unhex unbase64"),
    ("DATE", "d", "last_day"),
    ("DATE", "di", "date_add date_sub dateadd"),
    ("DATE", "ds", "trunc"),
    ("DATE", "dc", "next_day"),
    ("DATE", "i", "date_from_unix_date"),
    ("DATE", "", "current_date curdate"),
    ("TIMESTAMP", "st", "date_trunc"),
    ("TIMESTAMP", "tc", "from_utc_timestamp to_utc_timestamp"),
    ("TIMESTAMP", "v", "timestamp_micros"),
    ("TIMESTAMP", "", "current_timestamp now"),
    ("TIMESTAMP_NTZ", "", "localtimestamp"),
    ("TIMESTAMP", "a", "window_time"),
    ("ARRAY<STRING>", "spi", "split"),
    ("ARRAY<STRING>", "s", "json_object_keys"),
    ("ARRAY<ARRAY<STRING>>", "s", "sentences"),
    (
        "=",
        "a",
        "array_distinct array_union array_intersect array_except array_remove array_compact "
        "array_append array_prepend sort_array reverse shuffle nullifzero zeroifnull",
    ),
    ("=", "aza", "array_insert"),
    ("=", "azc", "slice"),
    ("ARRAY<=>", "ac", "array_repeat"),
    ("ARRAY<common>", "a", "array"),
    ("element", "a", "array_max array_min flatten"),
    ("element", "ai", "get"),
    ("STRING", "ass", "array_join"),
    ("ARRAY<key>", "a", "map_keys"),
    ("ARRAY<element>", "a", "map_values"),
    ("common", "a", "greatest least"),
    ("schema", "ac", "from_json from_csv from_xml"),
    ("?", "a", "struct named_struct arrays_zip map_entries to_variant_object uniform"),
    # These return NULL on failure, as the user intends.
    (
        "?",
        "a",
        "try_element_at try_to_number try_make_interval try_variant_get try_parse_json",
    ),
    ("TIMESTAMP", "a", "try_to_timestamp try_make_timestamp try_make_timestamp_ltz"),
    ("TIMESTAMP_NTZ", "a", "try_make_timestamp_ntz"),
    ("DATE", "a", "try_to_date"),
    ("BINARY", "a", "try_to_binary try_aes_decrypt"),
    ("STRING", "a", "try_url_decode try_parse_url try_reflect try_validate_utf8"),
)

SIGNATURES = {
    name: Signature(parameters=parameters, result=result)
    for result, parameters, names in _ROWS
    for name in names.split()
}

# By default a function is NULL for a NULL argument unless it has a parameter ``a``. Exceptions:
# functions without ``a`` that are not NULL, and functions with ``a`` that are.
NOT_STRICT = ("isnan", "nanvl", "uniform")
STRICT = (
    "abs bround ceil ceiling concat floor get mod negative pmod round size timestamp_millis "
    "timestamp_seconds unix_micros unix_millis unix_seconds unix_timestamp"
).split()

# For arguments that are not NULL, a twin is NULL only if the function fails.
TWINS = {
    "to_date": Twin(name="try_to_date", parameters="ap", result="DATE", reason=INVALID_CAST),
    "to_timestamp": Twin(
        name="try_to_timestamp", parameters="ap", result="TIMESTAMP", reason=INVALID_CAST
    ),
    "to_number": Twin(name="try_to_number", parameters="sc", result="?", reason=INVALID_CAST),
    "to_binary": Twin(name="try_to_binary", parameters="sc", result="BINARY", reason=INVALID_CAST),
    "parse_json": Twin(
        name="try_parse_json", parameters="s", result="VARIANT", reason=INVALID_ARGUMENT
    ),
    "url_decode": Twin(
        name="try_url_decode", parameters="s", result="STRING", reason=INVALID_ARGUMENT
    ),
    "validate_utf8": Twin(
        name="try_validate_utf8", parameters="s", result="STRING", reason=INVALID_ARGUMENT
    ),
    "aes_decrypt": Twin(
        name="try_aes_decrypt", parameters="s", result="BINARY", reason=INVALID_ARGUMENT
    ),
    "make_timestamp": Twin(
        name="try_make_timestamp", parameters="iiiiivc", result="TIMESTAMP", reason=INVALID_ARGUMENT
    ),
    "make_timestamp_ltz": Twin(
        name="try_make_timestamp_ltz",
        parameters="iiiiivc",
        result="TIMESTAMP",
        reason=INVALID_ARGUMENT,
    ),
    "make_timestamp_ntz": Twin(
        name="try_make_timestamp_ntz",
        parameters="iiiiiv",
        result="TIMESTAMP_NTZ",
        reason=INVALID_ARGUMENT,
    ),
    "make_interval": Twin(
        name="try_make_interval", parameters="iiiiiiv", result="INTERVAL", reason=OVERFLOW
    ),
}

# Names of types that can be called as functions.
CASTS = {
    name: name.upper()
    for name in (
        "bigint binary boolean date decimal double float int smallint string timestamp tinyint"
    ).split()
}

# The most likely reason for the failure of a function that is not in the tables above.
LIKELY_REASONS = {
    INVALID_CAST: (
        "to_timestamp_ltz to_timestamp_ntz unix_timestamp to_unix_timestamp variant_get to_time"
    ).split(),
    OVERFLOW: (
        "add_months timestampadd dateadd date_add timestampdiff datediff date_diff conv "
        "timestamp_seconds timestamp_millis make_dt_interval make_ym_interval repeat abs negative "
        "round bround ceil ceiling floor"
    ).split(),
    "invalid_index": "elt slice array_insert split_part".split(),
    "raised": ["raise_error", "assert_true"],
}

# Their result types, if known.
RESULTS = {
    "add_months": "DATE",
    "make_date": "DATE",
    "make_timestamp": "TIMESTAMP",
    "make_timestamp_ltz": "TIMESTAMP",
    "make_timestamp_ntz": "TIMESTAMP_NTZ",
    "to_timestamp_ltz": "TIMESTAMP",
    "to_timestamp_ntz": "TIMESTAMP_NTZ",
    "timestampadd": "TIMESTAMP",
    "dateadd": "TIMESTAMP",
    "timestampdiff": "BIGINT",
    "datediff": "BIGINT",
    "date_diff": "BIGINT",
    "conv": "STRING",
    "repeat": "STRING",
    "space": "STRING",
    "elt": "STRING",
    "split_part": "STRING",
    "parse_url": "STRING",
    "regexp_replace": "STRING",
    "regexp_extract": "STRING",
    "regexp_extract_all": "ARRAY<STRING>",
    "format_string": "STRING",
    "printf": "STRING",
    "encode": "BINARY",
    "to_timestamp": "TIMESTAMP",
    "timestamp_seconds": "TIMESTAMP",
    "timestamp_millis": "TIMESTAMP",
    "unix_timestamp": "BIGINT",
    "to_unix_timestamp": "BIGINT",
    "reflect": "STRING",
    "java_method": "STRING",
    "bit_get": "TINYINT",
    "getbit": "TINYINT",
    "str_to_map": "MAP<STRING, STRING>",
    "exists": "BOOLEAN",
    "any": "BOOLEAN",
    "forall": "BOOLEAN",
    "equal_null": "BOOLEAN",
}
