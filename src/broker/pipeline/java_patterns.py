r"""Translates Java's regular expressions to Python's `re`.

The option subscribePattern of Spark's Kafka source has Java's syntax.

Syntax that both have means the same except for \w, \d, \s and \b, which match ASCII only in Java.
Syntax that only Java has is translated if Python has an equivalent; otherwise an error names it.
Classes such as \p{L} contain only their ASCII characters, because topic names have no others.

Source: java.util.regex.Pattern of Java 17; Python's `re`.
"""

import re
import string
import sys
import unicodedata
from typing import Final

_ASCII: Final = "".join(map(chr, range(128)))
_POSIX: Final = {
    "Lower": string.ascii_lowercase,
    "Upper": string.ascii_uppercase,
    "ASCII": _ASCII,
    "Alpha": string.ascii_letters,
    "Digit": string.digits,
    "Alnum": string.ascii_letters + string.digits,
    "Punct": string.punctuation,
    "Graph": string.ascii_letters + string.digits + string.punctuation,
    "Print": string.ascii_letters + string.digits + string.punctuation + " ",
    "Blank": " \t",
    "Cntrl": "".join(map(chr, range(32))) + "\x7f",
    "XDigit": string.hexdigits,
    "Space": string.whitespace,
}
# Binary properties and scripts of Unicode, restricted to ASCII; in lower case, without "Is".
_UNICODE: Final = {
    "alphabetic": string.ascii_letters,
    "letter": string.ascii_letters,
    "lowercase": string.ascii_lowercase,
    "uppercase": string.ascii_uppercase,
    "digit": string.digits,
    "punctuation": "".join(each for each in _ASCII if unicodedata.category(each)[0] == "P"),
    "control": _POSIX["Cntrl"],
    "white_space": string.whitespace,
    "hex_digit": string.hexdigits,
    "latin": string.ascii_letters,
    "common": "".join(each for each in _ASCII if not each.isalpha()),
}
_CATEGORY: Final = re.compile("L[ultmo]?|M[nce]?|N[dlo]?|Z[slp]?|C[cfosn]?|P[dsecifo]?|S[mcko]?")
_HORIZONTAL: Final = r" \t\xa0\u1680\u180e\u2000-\u200a\u202f\u205f\u3000"
_VERTICAL: Final = r"\n\x0b\f\r\x85\u2028\u2029"
# The content of a character class; the capital letter is its complement.
_SPACES: Final = {"h": _HORIZONTAL, "v": _VERTICAL}
_SHARED_ESCAPES: Final = frozenset("wWdDsSbBAntrfaux123456789")  # after a backslash
_OUTSIDE_CLASSES: Final = {
    "z": r"\Z",
    "Z": r"(?=\n?\Z)",
    "R": rf"(?:\r\n|[{_VERTICAL}])",
}
_PROPERTY: Final = re.compile(r"[pP](?:\{(\^?)([^}]+)\}|([A-Z]))")
_FLAGS: Final = re.compile(r"\(\?([a-zA-Z-]+)([:)])")
_GROUP: Final = re.compile(r"\(\?<([A-Za-z][A-Za-z0-9]*)>")
_REFERENCE: Final = re.compile(r"k<([A-Za-z][A-Za-z0-9]*)>")
_WIDE: Final = re.compile(r"x\{([0-9A-Fa-f]+)\}")
_OCTAL: Final = re.compile("0([0-3]?[0-7]{1,2})")
_SHARED_FLAGS: Final = frozenset("imsx-")


def compile_java(pattern: str) -> re.Pattern[str]:
    r"""Compile a Java pattern with Python's `re`, to be used with `search` as in Spark.

    >>> compile_java(r"^\p{Alpha}+-\Qa.b\E$").search("clicks-a.b") is not None
    True

    Raises:
        ValueError: the pattern is invalid or uses syntax that Python does not have; the text says
            which.
    """
    translated = _Translation(pattern).translate()
    try:
        return re.compile(translated, re.ASCII)
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"a regular expression ({error})") from None


class _Translation:
    """The translation of one pattern, from its first character to its last."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0
        self._is_in_class = False

    def translate(self) -> str:
        parts = []
        while self._at < len(self._pattern):
            parts.append(self._next())
        return "".join(parts)

    def _next(self) -> str:
        character = self._pattern[self._at]
        if character == "\\":
            self._at += 1
            return self._escaped()
        if self._is_in_class:
            return self._in_class(character)
        if character == "(":
            return self._group()
        self._at += 1
        if character == "[":
            self._is_in_class = True
            start = re.compile(r"\^?\]?").match(self._pattern, self._at)
            assert start is not None, "it may be empty"
            self._at = start.end()
            return "[" + start[0]
        return character

    def _in_class(self, character: str) -> str:
        self._at += 1
        if character == "]":
            self._is_in_class = False
        elif character == "[":
            raise _unknown("a class within a class, [")
        elif character == "&" and self._pattern.startswith("&", self._at):
            raise _unknown("an intersection of classes, &&")
        elif character in "-~|&" and self._pattern.startswith(character, self._at):
            return "\\" + character  # doubled, which Python reserves
        return character

    def _group(self) -> str:
        named = _GROUP.match(self._pattern, self._at)
        if named:
            self._at = named.end()
            return f"(?P<{named[1]}>"
        flags = _FLAGS.match(self._pattern, self._at)
        if flags:
            foreign = set(flags[1]) - _SHARED_FLAGS
            if foreign:
                raise _unknown(f"the flag {min(foreign)} of {flags[0]}")
            if flags[2] == ")" and (self._at > 0 or "-" in flags[1]):
                raise _unknown(f"{flags[0]} elsewhere than at the beginning")
            self._at = flags.end()
            return flags[0]
        self._at += 1
        return "("

    def _escaped(self) -> str:
        rest = self._pattern[self._at :]
        if not rest:
            return "\\"  # re.compile reports the error
        letter = rest[0]
        for translate in (self._property, self._quoted, self._number, self._space, self._boundary):
            found = translate(rest)
            if found is not None:
                return found
        self._at += 1
        if letter in _SHARED_ESCAPES or not (letter.isascii() and letter.isalnum()):
            return "\\" + letter
        raise _unknown(f"\\{letter}")

    def _property(self, rest: str) -> str | None:
        found = _PROPERTY.match(rest)
        if not found:
            return None
        self._at += found.end()
        members = _members(found[2] or found[3], found[0])
        is_rest = (rest[0] == "P") != bool(found[1])
        inside = _inside(set(_ASCII) - set(members)) + r"\x80-\U0010ffff" if is_rest else ""
        inside = inside or _inside(set(members))
        if self._is_in_class:
            return inside
        return f"[{inside}]" if inside else "(?!)"

    def _quoted(self, rest: str) -> str | None:
        if rest[0] != "Q":
            return None
        text, _, _ = rest[1:].partition("\\E")
        self._at += 1 + len(text) + (2 if "\\E" in rest else 0)
        return re.escape(text)

    def _number(self, rest: str) -> str | None:
        """Translate a character given by its number, and other escapes that only Java has."""
        if rest[0] == "e":
            self._at += 1
            return r"\x1b"
        for form, base in ((_WIDE, 16), (_OCTAL, 8)):
            found = form.match(rest)
            if found:
                self._at += found.end()
                code = int(found[1], base)
                if code > sys.maxunicode:
                    raise _unknown(f"\\{found[0]}")
                return f"\\U{code:08x}"
        if rest[0] == "c" and len(rest) > 1:
            self._at += 2
            return f"\\U{ord(rest[1]) ^ 64:08x}"
        return None

    def _space(self, rest: str) -> str | None:
        inside = _SPACES.get(rest[0].lower())
        if inside is None:
            return None
        if self._is_in_class and rest[0].isupper():
            raise _unknown(f"\\{rest[0]} within a class")
        self._at += 1
        if self._is_in_class:
            return inside
        return f"[^{inside}]" if rest[0].isupper() else f"[{inside}]"

    def _boundary(self, rest: str) -> str | None:
        if self._is_in_class:
            return None
        reference = _REFERENCE.match(rest)
        if reference:
            self._at += reference.end()
            return f"(?P={reference[1]})"
        found = _OUTSIDE_CLASSES.get(rest[0])
        if found is not None:
            self._at += 1
        return found


def _members(name: str, written: str) -> str:
    if name in _POSIX:
        return _POSIX[name]
    for prefix in ("general_category=", "gc=", "script=", "sc=", "Is"):
        name = name.removeprefix(prefix)
    if name.lower() in _UNICODE:
        return _UNICODE[name.lower()]
    if name == "LC":
        return string.ascii_letters
    if _CATEGORY.fullmatch(name):
        return "".join(each for each in _ASCII if unicodedata.category(each).startswith(name))
    raise _unknown(f"\\{written}")


def _inside(members: set[str]) -> str:
    return "".join(f"\\x{ord(each):02x}" for each in sorted(members))


def _unknown(what: str) -> ValueError:
    return ValueError(f"a regular expression without {what}, which Python does not support")
