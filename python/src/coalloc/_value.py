"""What all messages of the schema have in common as Python values, and how they become messages and back.

A message is a frozen dataclass. Its fields have the names of the schema, with these differences: a length of time is an integer
of microseconds whose name ends with `_us`; an instant is a `datetime` with a time zone; a name that is a word of Python has an
underscore at its end (`from_`).

Left out: the messages themselves (`coalloc.messages`), which are generated.
"""

from __future__ import annotations

import dataclasses
import enum
import keyword
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta, timezone
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, cast

from google.protobuf import json_format
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

if TYPE_CHECKING:
    import pandas

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MICROSECOND = timedelta(microseconds=1)
_DURATION = Duration.DESCRIPTOR.full_name
_TIMESTAMP = Timestamp.DESCRIPTOR.full_name

V = TypeVar("V", bound="Value")
M = TypeVar("M", bound=Message)


class MissingField(ValueError):
    """A message lacks a field that every sender sets: it was sent by another program, or was damaged."""


class OpenEnum(enum.IntEnum):
    """An enum of the schema. A number that a newer coordinator knows, and this package does not, becomes a member `UNKNOWN_n`."""

    @classmethod
    def _missing_(cls, value: object) -> OpenEnum | None:
        if not isinstance(value, int):
            return None
        member = int.__new__(cls, value)
        member._name_ = f"UNKNOWN_{value}"
        member._value_ = value
        return member


# By the full names of their messages.
_VALUES: dict[str, type[Value]] = {}


class Value:
    """A message of the schema as an immutable value."""

    _message_type: ClassVar[type[Message]]

    def __init_subclass__(cls) -> None:
        if "_message_type" in cls.__dict__:
            _VALUES[cls._message_type.DESCRIPTOR.full_name] = cls

    def _raw_as(self, kind: type[M]) -> M:
        """The message that was received; for a value that was written, the message that would be sent."""
        kept = self.__dict__.get("_raw")
        return kept if isinstance(kept, kind) else to_message(self, kind)

    def to_json(self) -> str:
        """The message as canonical JSON of protobuf, which `coalloc` reads from files, too."""
        return json_format.MessageToJson(to_message(self, self._message_type))

    @classmethod
    def from_json(cls: type[V], text: str) -> V:
        """A value out of JSON: a request file, for example.

        Raises:
            ValueError: it is not the JSON of such a message.
        """
        try:
            return from_message(cls, json_format.Parse(text, cls._message_type()))
        except json_format.ParseError as error:
            raise ValueError(f"{cls.__name__}: {error}") from error

    def to_frame(self) -> pandas.DataFrame:
        """A data frame of this value; needs `coalloc[pandas]`. The guide's chapter says which values have which rows."""
        from coalloc.frames import to_frame

        return to_frame(self)

    def _repr_svg_(self) -> str | None:
        """What notebooks show: a timeline, if this value has one."""
        from coalloc.timelines import timeline_of

        timeline = timeline_of(self)
        return None if timeline is None else timeline.svg


def python_name(field: FieldDescriptor) -> str:
    """The name of a field in Python."""
    is_length = field.message_type is not None and field.message_type.full_name == _DURATION
    name = f"{field.name}_us" if is_length else field.name
    return f"{name}_" if keyword.iskeyword(name) else name


def to_timestamp(instant: datetime, name: str = "time") -> Timestamp:
    """An instant as the schema has it.

    Raises:
        ValueError: the instant has no time zone, so that it could mean several instants.
    """
    if instant.tzinfo is None or instant.utcoffset() is None:
        raise ValueError(
            f"{name}: {instant.isoformat()} has no time zone; needed: a datetime with tzinfo, "
            "such as datetime.now(timezone.utc)"
        )
    seconds, rest = divmod((instant - _EPOCH) // _MICROSECOND, 1_000_000)
    return Timestamp(seconds=seconds, nanos=rest * 1_000)


def to_datetime(stamp: Timestamp) -> datetime:
    """An instant in UTC."""
    return _EPOCH + timedelta(seconds=stamp.seconds, microseconds=stamp.nanos // 1_000)


def to_duration(length_us: int) -> Duration:
    """A length of time as the schema has it."""
    seconds, rest = divmod(length_us, 1_000_000)
    return Duration(seconds=seconds, nanos=rest * 1_000)


def to_us(duration: Duration) -> int:
    """A length of time in microseconds."""
    return duration.seconds * 1_000_000 + duration.nanos // 1_000


def fields_of(message: Message) -> list[FieldDescriptor]:
    """The fields of a message, in the order of their declaration."""
    return cast(list[FieldDescriptor], list(message.DESCRIPTOR.fields))


def is_many(field: FieldDescriptor) -> bool:
    """Whether a field is a list. How a descriptor says so differs between releases of protobuf."""
    said = getattr(field, "is_repeated", None)
    return (
        bool(said)
        if said is not None
        else bool(getattr(field, "label", 0) == FieldDescriptor.LABEL_REPEATED)
    )


@cache
def _enum_of(full_name: str) -> type[OpenEnum]:
    name = full_name.rpartition(".")[2]
    for known in OpenEnum.__subclasses__():
        if known.__name__ == name:
            return known
    raise LookupError(f"{full_name} has no class; run tools/generate.py")


def word_of(kind: type[OpenEnum], part: int | str) -> OpenEnum:
    """A member of an enum, by itself, its number or its word.

    Raises:
        ValueError: the enum has no such word.
    """
    if not isinstance(part, str):
        return kind(part)
    if part not in kind.__members__:
        words = ", ".join(f"{kind.__name__}.{word}" for word in kind.__members__)
        raise ValueError(f"needed: one of {words}")
    return kind[part]


def _value_of(field: FieldDescriptor, part: Any) -> Any:
    """A part of a message as Python has it."""
    if field.message_type is not None:
        name = field.message_type.full_name
        if name == _TIMESTAMP:
            return to_datetime(part)
        if name == _DURATION:
            return to_us(part)
        return from_message(_VALUES[name], part)
    if field.enum_type is not None:
        return _enum_of(field.enum_type.full_name)(part)
    return part


def from_message(kind: type[V], message: Message) -> V:
    """A message as a value, which keeps the message as `raw`.

    Raises:
        MissingField: a required field is not there.
    """
    values: dict[str, Any] = {}
    for field in fields_of(message):
        name = python_name(field)
        if is_many(field):
            values[name] = tuple(_value_of(field, part) for part in getattr(message, field.name))
        elif not field.has_presence or message.HasField(field.name):
            values[name] = _value_of(field, getattr(message, field.name))
    lacking = [
        one.name
        for one in dataclasses.fields(cast(Any, kind))
        if one.default is dataclasses.MISSING and one.name not in values
    ]
    if lacking:
        raise MissingField(f"{kind.__name__}: {', '.join(lacking)} is not set")
    value = kind(**values)
    object.__setattr__(value, "_raw", message)
    return value


def _fill(message: Message, field: FieldDescriptor, name: str, part: Any) -> None:
    """Sets one field of a message that is a message itself."""
    target = getattr(message, field.name)
    kind = target.DESCRIPTOR.full_name
    if kind == _TIMESTAMP and isinstance(part, datetime):
        target.CopyFrom(to_timestamp(part, name))
    elif kind == _DURATION and isinstance(part, int) and not isinstance(part, bool):
        target.CopyFrom(to_duration(part))
    elif isinstance(part, Value) and part._message_type is type(target):
        target.CopyFrom(to_message(part, type(target)))
    else:
        needed = {
            _TIMESTAMP: "a datetime with tzinfo, such as datetime.now(timezone.utc)",
            _DURATION: "whole microseconds, such as coalloc.hours(1)",
        }.get(kind, target.DESCRIPTOR.name)
        raise TypeError(f"{name}: {part!r} is not allowed; needed: {needed}")


def _plain(field: FieldDescriptor, part: Any) -> Any:
    """A number, a text or a truth value as it is; of a word of an enum, its number."""
    if field.enum_type is not None and isinstance(part, str):
        return word_of(_enum_of(field.enum_type.full_name), part)
    return part


def _put(message: Message, field: FieldDescriptor, name: str, part: Any) -> None:
    """Sets, or adds to, one field that has no messages in it.

    Raises:
        ValueError: a number does not fit its field, or an enum has no such word.
        TypeError: the field has another type.
    """
    try:
        if is_many(field):
            getattr(message, field.name).append(_plain(field, part))
        else:
            setattr(message, field.name, _plain(field, part))
    except TypeError as error:
        raise TypeError(f"{name}: {part!r} is not allowed: {error}") from None
    except ValueError as error:
        raise ValueError(f"{name}: {part!r} is not allowed: {error}") from None


def to_message(value: Value, kind: type[M]) -> M:
    """A value as the message that is sent.

    Raises:
        ValueError: an instant has no time zone, or a number does not fit its field.
        TypeError: a field has a value of another type.
    """
    if not isinstance(value, Value):
        needed = f"coalloc.messages.{kind.DESCRIPTOR.name}"
        raise TypeError(f"{value!r} is not allowed; needed: {needed}")
    message = kind()
    for field in fields_of(message):
        name = python_name(field)
        part = getattr(value, name)
        if part is None:
            continue
        path = f"{type(value).__name__}.{name}"
        if is_many(field):
            many = cast(Sequence[Any], part)
            if isinstance(many, (str, bytes)) or not isinstance(many, Iterable):
                raise TypeError(f"{path}: {many!r} is one value; needed: a list or a tuple")
            target = getattr(message, field.name)
            for one in many:
                if isinstance(one, Value):
                    target.append(to_message(one, type(one)._message_type))
                else:
                    _put(message, field, path, one)
        elif field.message_type is not None:
            _fill(message, field, path, part)
        elif field.has_presence or part != field.default_value:
            _put(message, field, path, part)
    return message
