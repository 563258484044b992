"""Numbers with their nouns and verbs, in the singular for 1."""


def amount(number: int | str, noun: str) -> str:
    """A number and its noun, in the plural unless the number is 1.

    Parameters
    ----------
    number : int or str
        Or its text, such as "1,200" or "2 or 3".
    noun : str
        In the singular.

    Examples
    --------
    >>> [amount(1, "client"), amount(2, "class"), amount(0, "entity"), amount("1,200", "day")]
    ['1 client', '2 classes', '0 entities', '1,200 days']
    """
    return f"{number} {noun if str(number) == '1' else _plural(noun)}"


def be(number: int) -> str:
    """The verb after a number."""
    return "is" if number == 1 else "are"


def have(number: int) -> str:
    """The verb of possession after a number."""
    return "has" if number == 1 else "have"


def with_article(noun: str) -> str:
    """A noun after its article, by its first letter.

    Examples
    --------
    >>> [with_article("list"), with_article("int")]
    ['a list', 'an int']
    """
    return f"{'an' if noun[:1].lower() in 'aeiou' else 'a'} {noun}"


def _plural(noun: str) -> str:
    if noun.endswith("y") and noun[-2] not in "aeiou":
        return f"{noun[:-1]}ies"
    return f"{noun}es" if noun.endswith("s") else f"{noun}s"
