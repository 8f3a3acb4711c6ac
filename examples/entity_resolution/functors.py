"""What the program asks of strings and Datalog does not have: see program.dl."""

import unicodedata
from difflib import SequenceMatcher


def plain(name: str) -> str:
    """A name without accents, case, titles and order: "Dr. Jürgen Maß" and "mass, juergen" are the same.

    >>> plain("Dr. Jürgen Maß"), plain("mass, juergen")
    ('juergen mass', 'juergen mass')
    """
    name = name.casefold().replace("ä", "ae").replace("ö", "oe").replace("ü", "ue")
    name = "".join(letter for letter in unicodedata.normalize("NFD", name) if letter.isalpha() or letter == " ")
    return " ".join(sorted(word for word in name.split() if word not in ("dr", "prof", "mr", "mrs", "ms")))


def digits(phone: str) -> str:
    """A telephone number as it is dialled from abroad.

    >>> digits("0731 / 44 55-1"), digits("+49 731 44551")
    ('4973144551', '4973144551')
    """
    found = "".join(letter for letter in phone if letter.isdigit())
    return found[2:] if found.startswith("00") else "49" + found[1:] if found.startswith("0") else found


def alike(one: str, other: str) -> int:
    """How alike two texts are, in percent; the same in both orders.

    >>> alike("juergen mass", "juergen maas"), alike("ada", "bela")
    (92, 29)
    """
    return round(100 * SequenceMatcher(None, *sorted((one, other))).ratio())
