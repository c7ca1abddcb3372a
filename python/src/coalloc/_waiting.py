"""The transport of the client that waits: connections, streams, and how a program is carried out.

Left out: the calls (`coalloc.client`).
"""

from __future__ import annotations

import threading
import time
from typing import Any, Generic, TypeVar, cast

import grpc

from coalloc import _connection
from coalloc._connection import CALL_TIME_MAX_S, Leader, Settings
from coalloc._program import (
    Answer,
    Call,
    Emit,
    Failed,
    MoveOn,
    Next,
    Open,
    Outcome,
    Pause,
    Program,
    Ready,
    Step,
)

T = TypeVar("T")


class Channels:
    """The connection of a client, made when it is needed. Threads may share it."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._leader = Leader(settings.addresses)
        self._lock = threading.Lock()
        self._channel: tuple[int, grpc.Channel] | None = None
        self._is_closed = False

    def _channel_now(self) -> tuple[int, grpc.Channel]:
        with self._lock:
            if self._is_closed:
                raise RuntimeError("this client is closed")
            if self._channel is None:
                number, target = self._leader.connection, self._leader.address
                options = self.settings.options()
                credentials = self.settings.credentials()
                channel = (
                    grpc.insecure_channel(target, options)
                    if credentials is None
                    else grpc.secure_channel(target, credentials, options)
                )
                self._channel = (number, channel)
            return self._channel

    def move_on(self, failed: int) -> None:
        """Connects anew with the next call."""
        if not self._leader.move_on(failed):
            return
        with self._lock:
            # The old channel is not closed: other threads may have calls on it. It is closed when these have ended.
            self._channel = None

    def call(self, call: Call) -> Answer | Failed:
        """Makes one call."""
        place, channel = self._channel_now()
        method = channel.unary_unary(
            call.path,
            request_serializer=type(call.message).SerializeToString,
            response_deserializer=call.answer.FromString,
        )
        metadata = self.settings.metadata(call.needs)
        try:
            answer = method(call.message, timeout=CALL_TIME_MAX_S, metadata=metadata)
        except grpc.RpcError as error:
            return _connection.failed(error, place)
        return _connection.answered(answer, call)

    def open(self, call: Call) -> Stream:
        """Begins a stream."""
        place, channel = self._channel_now()
        method = channel.unary_stream(
            call.path,
            request_serializer=type(call.message).SerializeToString,
            response_deserializer=call.answer.FromString,
        )
        metadata = self.settings.metadata(call.needs)
        return Stream(call, place, method(call.message, metadata=metadata))

    def close(self) -> None:
        """Ends the connection; calls that wait end with an error."""
        with self._lock:
            self._is_closed = True
            if self._channel is not None:
                self._channel[1].close()
            self._channel = None


class Stream:
    """A stream of answers."""

    def __init__(self, call: Call, place: int, answers: Any) -> None:
        self._call = call
        self._place = place
        self._answers = answers

    def next(self) -> Answer | Failed:
        """Waits for the next answer."""
        try:
            return _connection.answered(next(self._answers), self._call)
        except StopIteration:
            return _connection.ended(self._place)
        except grpc.RpcError as error:
            return _connection.failed(error, self._place)

    def cancel(self) -> None:
        """Ends the stream."""
        self._answers.cancel()


class Run(Generic[T]):
    """A program that is being carried out."""

    def __init__(self, channels: Channels, program: Program[T]) -> None:
        self._channels = channels
        self._program = program
        self._outcome: Outcome | None = None
        # The step that is being carried out. It is carried out again after a KeyboardInterrupt.
        self._step: Step | None = None
        self._stream: Stream | None = None
        self._is_cancelled = False

    def step(self) -> Emit | Ready:
        """Goes on to the next item, or to where the stream has begun.

        Raises:
            StopIteration: the program has ended; its value is what it returns.
        """
        while True:
            if self._is_cancelled:
                self._program.close()
                raise StopIteration
            if self._step is None:
                outcome = self._outcome
                self._step = next(self._program) if outcome is None else self._program.send(outcome)
            step = self._step
            self._outcome = self._carry_out(step)
            self._step = None
            if self._is_cancelled:
                self.cancel()
            if isinstance(step, (Emit, Ready)):
                return step

    def _carry_out(self, step: Step) -> Outcome:
        match step:
            case Call():
                return self._channels.call(step)
            case Open():
                self._stream = self._channels.open(step.call)
            case Next():
                if self._stream is None:
                    raise RuntimeError("the stream was not opened")
                return self._stream.next()
            case Pause():
                time.sleep(step.seconds)
            case MoveOn():
                self._channels.move_on(step.connection)
        return _connection.nothing()

    def result(self) -> T:
        """Carries out the whole program."""
        try:
            while True:
                self.step()
        except StopIteration as end:
            return cast(T, end.value)

    def cancel(self) -> None:
        """Ends the program: whoever waits in `step`, in any thread, meets its end."""
        self._is_cancelled = True
        if self._stream is not None:
            self._stream.cancel()
