"""Iterators that become data frames."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    import pandas

T = TypeVar("T")


class FrameableIterator(Iterator[T]):
    """An iterator over values, all of which `to_frame` reads."""

    @abstractmethod
    def __next__(self) -> T: ...

    def to_frame(self) -> pandas.DataFrame:
        """Reads all that is left into a data frame; needs `coalloc[pandas]`."""
        from coalloc.frames import to_frame

        return to_frame(self)
