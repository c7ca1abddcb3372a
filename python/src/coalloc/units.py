"""Lengths of time and rates as the integers that requests want: microseconds and bit/s.

Left out: instants, which are datetimes with a time zone.
"""

from __future__ import annotations

from datetime import timedelta
from fractions import Fraction

_SECOND_US = 1_000_000
Number = int | float


def _whole(number: Number, unit: int, what: str) -> int:
    exact = Fraction(str(number)) * unit
    if exact.denominator != 1 or exact < 0:
        raise ValueError(f"{number} {what} is not a whole number of the smallest unit, 0 or more")
    return int(exact)


def seconds(number: Number) -> int:
    """So many seconds, in microseconds.

    Raises:
        ValueError: it is negative, or not a whole number of microseconds.
    """
    return _whole(number, _SECOND_US, "s")


def minutes(number: Number) -> int:
    """So many minutes, in microseconds; otherwise as `seconds`."""
    return _whole(number, 60 * _SECOND_US, "min")


def hours(number: Number) -> int:
    """So many hours, in microseconds; otherwise as `seconds`."""
    return _whole(number, 3600 * _SECOND_US, "h")


def microseconds(length: timedelta) -> int:
    """A `timedelta` in microseconds."""
    return length // timedelta(microseconds=1)


def mbps(number: Number) -> int:
    """So many Mbit/s (10^6), in bit/s.

    Raises:
        ValueError: it is negative, or not a whole number of bit/s.
    """
    return _whole(number, 10**6, "Mbit/s")


def gbps(number: Number) -> int:
    """So many Gbit/s (10^9), in bit/s; otherwise as `mbps`."""
    return _whole(number, 10**9, "Gbit/s")
