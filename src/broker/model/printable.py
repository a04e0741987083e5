"""Texts of others as they may be printed: none steers a terminal or looks like another line."""


def printable(text: str) -> str:
    """Return a text with other characters than printable ones escaped."""
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode() for each in text
    )


def printable_lines(text: str) -> str:
    """Return the same of a text that may have several lines."""
    return "\n".join(map(printable, text.split("\n")))
