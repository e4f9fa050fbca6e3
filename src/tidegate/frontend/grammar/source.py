"""A statement as text and tree together: slices of the text, with sub-expressions replaced.

What reaches Spark is cut out of the statement, never printed from the tree, so an expression means
to Spark what its author wrote, whatever sqlglot makes of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from sqlglot import Token, TokenType, exp
from sqlglot.errors import ParseError, TokenError

from tidegate.errors import Span
from tidegate.frontend.grammar.dialect import StreamDialect, StreamParser
from tidegate.frontend.grammar.marks import SyntaxRefusal
from tidegate.frontend.grammar.nodes import span_of
from tidegate.frontend.refusal import Refusal
from tidegate.names import path
from tidegate.plan.statement import Expression

_OPENING = {TokenType.L_PAREN: "(", TokenType.L_BRACKET: "[", TokenType.L_BRACE: "{"}
_CLOSING = {TokenType.R_PAREN: "(", TokenType.R_BRACKET: "[", TokenType.R_BRACE: "{"}
_NO_NAMES = (TokenType.R_PAREN, TokenType.COMMA, TokenType.FROM, TokenType.ALIAS)
_ATOM = re.compile(r"\w+|`[^`]+`|\w+\([^()]*\)")

# Python reads numbers of up to 4,300 digits.
_MOST_DIGITS = 1_000

# Returns the text that stands for a node, or None to look into its children.
Replace = Callable[[exp.Expr], str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A statement (or an expression) that was read: its text, its tokens and its tree.

    ``renamed`` are places of FROM that Spark knows by another name.
    """

    text: str
    tokens: tuple[Token, ...]
    tree: exp.Expr
    renamed: tuple[tuple[Span, str], ...] = ()

    def slice(self, node: exp.Expr) -> str:
        """Return the text of a node as written."""
        span = span_of(node)
        return self.text[span.start : span.end]

    def expression(self, node: exp.Expr) -> Expression:
        """Return a node's text and place."""
        return Expression(sql=self.slice(node), span=span_of(node))

    def from_text(self, start: int, end: int) -> str:
        """Return a part of FROM as Spark knows it."""
        pieces, position = [], start
        for place, name in self.renamed:
            if start <= place.start and place.end <= end:
                pieces += [self.text[position : place.start], name]
                position = place.end
        return "".join([*pieces, self.text[position:end]])

    def rewrite(self, node: exp.Expr, replace: Replace) -> str:
        """Return the text of a node, with the parts that ``replace`` has a text for replaced."""
        span = span_of(node)
        pieces, position = [], span.start
        for place, text in sorted(_replacements(node, replace), key=lambda found: found[0].start):
            pieces += [self.text[position : place.start], text]
            position = place.end
        return "".join([*pieces, self.text[position : span.end]])

    def canonical(self, node: exp.Expr, column_name: Callable[[exp.Expr], str | None]) -> str:
        """Return a text that two expressions share only when they are written alike.

        Case (outside of strings), white space, comments, backticks around a plain word and, through
        ``column_name``, how a column is qualified make no difference.
        """
        span = span_of(node)
        columns = sorted(_replacements(node, column_name), key=lambda found: found[0].start)
        words: list[str] = []
        position = span.start
        for token in self.tokens:
            if token.start < position or token.end >= span.end:
                continue
            if columns and token.start == columns[0][0].start:
                place, name = columns.pop(0)
                words.append(name)
                position = place.end
                continue
            text = self.text[token.start : token.end + 1]
            words.append(_canonical_word(token, text))
            position = token.end + 1
        return " ".join(words)


def read(text: str) -> Source:
    """Return the one statement of a text.

    Raises:
        Refusal: the text is not one statement of the grammar.
    """
    tokens = _tokenize(text)
    trees = _grammatical(text, lambda parser: parser.parse(list(tokens), text))
    statements = [tree for tree in trees if tree is not None]
    if not statements:
        raise Refusal(
            "the statement is empty",
            Span(0, len(text)),
            "Write SELECT .. FROM stream GROUP BY window.",
        )
    if len(statements) > 1:
        second = next(token for token in tokens if token.token_type == TokenType.SEMICOLON)
        raise Refusal(
            f"found {len(statements)} statements, but a query is one statement",
            Span(second.start, len(text)),
            "Write each statement as a query of its own.",
        )
    return Source(text=text, tokens=tokens, tree=statements[0])


def read_expression(text: str) -> Source:
    """Return a scalar expression, such as a setting or a part of a plan.

    Raises:
        Refusal: the text is not one expression.
    """
    tokens = _tokenize(text)
    trees = _grammatical(text, lambda parser: parser.parse_into(exp.Condition, list(tokens), text))
    if len(trees) != 1 or trees[0] is None:
        raise Refusal(
            "this is not one expression", Span(0, len(text)), "Write one Spark SQL expression."
        )
    return Source(text=text, tokens=tokens, tree=trees[0])


def subtree(node: exp.Expr, *, into_queries: bool = False) -> Iterator[exp.Expr]:
    """Yield a node and what is under it, without entering nested queries unless told to."""
    yield node
    if isinstance(node, exp.Query) and not into_queries:
        return
    for child in node.iter_expressions():
        yield from subtree(child, into_queries=into_queries)


def in_brackets(text: str) -> str:
    """Return an expression so that it can stand anywhere in another one."""
    return text if _ATOM.fullmatch(text) else f"({text})"


def _canonical_word(token: Token, text: str) -> str:
    match token.token_type:
        case TokenType.STRING | TokenType.RAW_STRING:
            return text
        case TokenType.IDENTIFIER:
            return path(token.text)
    return text.lower()


def _replacements(node: exp.Expr, replace: Replace) -> Iterator[tuple[Span, str]]:
    text = replace(node)
    if text is not None:
        yield span_of(node), text
        return
    for child in node.iter_expressions():
        yield from _replacements(child, replace)


def _grammatical(
    text: str, parse: Callable[[StreamParser], list[exp.Expr | None]]
) -> list[exp.Expr | None]:
    parser = StreamParser(dialect=StreamDialect)
    try:
        return parse(parser)
    except SyntaxRefusal as error:
        raise _syntax(text, error.message, error.span) from None
    except ParseError as error:
        inner = error.__cause__
        message, span = (
            (inner.message, inner.span)
            if isinstance(inner, SyntaxRefusal)
            else (str(error), Span(0, len(text)))
        )
        raise _syntax(text, message, span) from None
    except RecursionError:
        raise Refusal(
            "the statement is nested too deeply",
            Span(0, len(text)),
            "Split it with WITH name AS (SELECT ..).",
        ) from None
    except (Refusal, AssertionError):
        raise
    except Exception as error:
        # On other text sqlglot may fail in other ways; the place is where it stopped.
        raise _syntax(text, "the parser cannot go on", parser.place()) from error


# Messages of sqlglot that name its own classes, by their beginnings, and ours for them.
_SYNTAX = {"required keyword": "something is missing after it", "invalid expression": ""}


def _syntax(text: str, message: str, span: Span) -> Refusal:
    found = text[span.start : span.end]
    where = f"{found!r} is not understood here" if found else "the statement ends too early"
    detail = message.strip().rstrip(".")
    detail = detail if detail[1:2].isupper() else detail[:1].lower() + detail[1:]
    for start, better in _SYNTAX.items():
        if detail.lower().startswith(start):
            detail = better
    return Refusal(
        f"{where}: {detail}" if detail else where,
        span,
        "The grammar is [WITH ..] SELECT .. FROM stream [JOIN table ..] [WHERE ..] "
        "GROUP BY window, keys [HAVING ..] [WINDOW ..] [ON ..] [WATERMARK (..)] "
        "[EMIT ..] [ORDER BY ..] [LIMIT n].",
    )


def _tokenize(text: str) -> tuple[Token, ...]:
    try:
        tokens = tuple(StreamDialect().tokenize(text))
    except TokenError as error:
        raise _unclosed(text, error) from None
    _check_brackets(text, tokens)
    _check_names(tokens)
    _check_numbers(tokens)
    return tokens


_OPENED = {"'": "string", '"': "string", "`": "name", "/*": "comment"}


def _unclosed(text: str, error: TokenError) -> Refusal:
    start = max(0, min(getattr(error, "start", 0) or 0, len(text) - 1))
    place = re.compile(r"['\"`]|/\*").search(text, start)
    opening = place[0] if place else ""
    what = (
        f"unterminated {_OPENED[opening]} starting with {opening}"
        if opening
        else "the statement cannot be read"
    )
    return Refusal(
        what,
        Span(place.start() if place else start, len(text)),
        "Close the string, name or comment.",
    )


def _check_numbers(tokens: Sequence[Token]) -> None:
    """Refuse a number that is too long to read."""
    for token in tokens:
        if token.token_type == TokenType.NUMBER and len(token.text) > _MOST_DIGITS:
            raise Refusal(
                f"a number has {len(token.text):,} characters",
                Span(token.start, token.end + 1),
                f"Write a number of up to {_MOST_DIGITS:,} characters. Spark's exact numbers have "
                "up to 38 digits.",
            )


def _check_names(tokens: Sequence[Token]) -> None:
    """Refuse an AS without a name, which sqlglot accepts."""
    for token, follows in zip_longest(tokens, tokens[1:]):
        if token.token_type == TokenType.ALIAS and (
            follows is None or follows.token_type in _NO_NAMES
        ):
            raise Refusal(
                f"{token.text} has no name after it",
                Span(token.start, token.end + 1),
                "Write a name after it, or leave it out.",
            )


def _check_brackets(text: str, tokens: tuple[Token, ...]) -> None:
    waiting: list[tuple[Token | None, Token]] = []
    before = None
    for token in tokens:
        if token.token_type in _OPENING:
            waiting.append((before, token))
        elif token.token_type in _CLOSING:
            if not waiting or _OPENING[waiting[-1][1].token_type] != _CLOSING[token.token_type]:
                raise Refusal(
                    f"{text[token.start]} closes a bracket that was never opened",
                    Span(token.start, token.end + 1),
                    f"Remove it, or write the {_CLOSING[token.token_type]} that it closes.",
                )
            waiting.pop()
        before = token
    if waiting:
        name, opening = waiting[0]
        start = name.start if name and name.end + 1 == opening.start else opening.start
        raise Refusal(
            f"the bracket of {text[start : opening.end + 1]} is never closed",
            Span(start, opening.end + 1),
            "Write the bracket that closes it.",
        )
