"""The transport of the client that awaits (asyncio): connections, streams, and how a program is carried out.

Left out: the calls (`coalloc.aio`).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

import grpc
import grpc.aio

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

if TYPE_CHECKING:
    pass

T = TypeVar("T")


class Channels:
    """The connection of a client, made when it is needed."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._leader = Leader(settings.addresses)
        self._channel: tuple[int, grpc.aio.Channel] | None = None
        # Connections that failed: others may have calls on them.
        self._left: list[grpc.aio.Channel] = []
        self._is_closed = False

    def _channel_now(self) -> tuple[int, grpc.aio.Channel]:
        if self._is_closed:
            raise RuntimeError("this client is closed")
        if self._channel is None:
            number, target = self._leader.connection, self._leader.address
            options = self.settings.options()
            credentials = self.settings.credentials()
            channel = (
                grpc.aio.insecure_channel(target, options)
                if credentials is None
                else grpc.aio.secure_channel(target, credentials, options)
            )
            self._channel = (number, channel)
        return self._channel

    async def move_on(self, failed: int) -> None:
        """Connects anew with the next call."""
        if not self._leader.move_on(failed) or self._channel is None:
            return
        self._left.append(self._channel[1])
        self._channel = None
        # What was left longer ago than any call lasts is of no use to anybody.
        while len(self._left) > 8:
            await self._left.pop(0).close()

    async def call(self, call: Call) -> Answer | Failed:
        """Makes one call."""
        number, channel = self._channel_now()
        method = channel.unary_unary(
            call.path,
            request_serializer=type(call.message).SerializeToString,
            response_deserializer=call.answer.FromString,
        )
        metadata = self.settings.metadata(call.needs)
        try:
            answer = await method(call.message, timeout=CALL_TIME_MAX_S, metadata=metadata)
        except grpc.RpcError as error:
            return _connection.failed(error, number)
        return _connection.answered(answer, call)

    def open(self, call: Call) -> Stream:
        """Begins a stream."""
        number, channel = self._channel_now()
        method = channel.unary_stream(
            call.path,
            request_serializer=type(call.message).SerializeToString,
            response_deserializer=call.answer.FromString,
        )
        metadata = self.settings.metadata(call.needs)
        return Stream(call, number, method(call.message, metadata=metadata))

    async def close(self) -> None:
        """Ends the connection; calls that wait end with an error."""
        self._is_closed = True
        if self._channel is not None:
            self._left.append(self._channel[1])
            self._channel = None
        while self._left:
            await self._left.pop().close()


class Stream:
    """A stream of answers."""

    def __init__(self, call: Call, connection: int, answers: Any) -> None:
        self._call = call
        self._connection = connection
        self._answers = answers

    async def next(self) -> Answer | Failed:
        """Awaits the next answer."""
        try:
            answer = await self._answers.read()
        except grpc.RpcError as error:
            return _connection.failed(error, self._connection)
        if answer is grpc.aio.EOF:
            return _connection.ended(self._connection)
        return _connection.answered(answer, self._call)

    def cancel(self) -> None:
        """Ends the stream."""
        self._answers.cancel()


class Run(Generic[T]):
    """A program that is being carried out."""

    def __init__(self, channels: Channels, program: Program[T]) -> None:
        self._channels = channels
        self._program = program
        self._outcome: Outcome | None = None
        # The step that is being carried out, and where.
        self._step: Step | None = None
        self._task: asyncio.Task[Outcome] | None = None
        self._stream: Stream | None = None
        self.value: T | None = None
        """What the program has returned."""

    async def step(self) -> Emit | Ready | None:
        """Goes on to the next item, or to where the stream has begun. None: the program has ended.

        Whoever waits here may be cancelled, by `asyncio.wait_for` for example: the step goes on, and the next call waits for it.
        """
        while True:
            if self._step is None:
                outcome = self._outcome
                try:
                    step = next(self._program) if outcome is None else self._program.send(outcome)
                except StopIteration as end:
                    self.value = end.value
                    return None
                if isinstance(step, (Emit, Ready)):
                    self._outcome = _connection.nothing()
                    return step
                self._step = step
                self._task = asyncio.ensure_future(self._carry_out(step))
            if self._task is not None:
                self._outcome = await asyncio.shield(self._task)
            self._step = self._task = None

    async def _carry_out(self, step: Step) -> Outcome:
        match step:
            case Call():
                return await self._channels.call(step)
            case Open():
                self._stream = self._channels.open(step.call)
            case Next():
                if self._stream is None:
                    raise RuntimeError("the stream was not opened")
                return await self._stream.next()
            case Pause():
                await asyncio.sleep(step.seconds)
            case MoveOn():
                await self._channels.move_on(step.connection)
        return _connection.nothing()

    async def result(self) -> T:
        """Carries out the whole program; a call ends when whoever waits for it is cancelled."""
        try:
            while await self.step() is not None:
                pass
        finally:
            if self._task is not None:
                self._task.cancel()
        return cast(T, self.value)

    def cancel(self) -> None:
        """Ends the program."""
        self._program.close()
        if self._task is not None:
            self._task.cancel()
        if self._stream is not None:
            self._stream.cancel()
