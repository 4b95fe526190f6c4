"""MQTT payloads, sealed from publisher to subscriber over any broker."""

import os
from collections.abc import Sequence
from types import TracebackType
from typing import Optional, Union, final

__version__: str

__all__ = [
    "__version__",
    "AntedateError",
    "ConfigurationError",
    "Guard",
    "Message",
    "NoGroupError",
    "NoKeyError",
    "PayloadError",
    "RefusedError",
    "Rotation",
    "StateError",
    "create_state",
]

_Path = Union[str, "os.PathLike[str]"]
_Payload = Union[bytes, bytearray]

class AntedateError(Exception):
    """Base of this module's exceptions."""

    remedy: str
    """What to do about it."""

class ConfigurationError(AntedateError):
    """A group file, device file or publisher's name is wrong or missing."""

class StateError(AntedateError):
    """The state directory is missing, damaged, copied, in use, or cannot be written.

    Nothing that was opened with this call counts as received. Open the state again."""

class NoGroupError(AntedateError):
    """No group protects the topic."""

class NoKeyError(AntedateError):
    """The group has no key for this device yet: open the group's retained rotation message first."""

class PayloadError(AntedateError):
    """The payload or topic cannot be sealed."""

class RefusedError(AntedateError):
    """The message is not authentic, or not new."""

    reason: str
    """The reason's name in the book's table "Refused messages", or "not-rotation"."""

def create_state(directory: _Path) -> None:
    """Makes an empty state directory, once for each publisher's name. As `antedate mqtt init`."""

@final
class Message:
    """An authentic and new payload, and its origin."""

    @property
    def payload(self) -> bytes: ...
    @property
    def publisher(self) -> str: ...
    @property
    def epoch(self) -> int:
        """The epoch of the group's key."""
    @property
    def sequence(self) -> int:
        """The publisher's sequence number."""
    @property
    def time(self) -> Optional[int]:
        """The time of sealing in seconds since 1970, on topics with a most age."""

@final
class Rotation:
    """A rotation message of the group's manager, which was followed or known."""

    @property
    def group(self) -> str: ...
    @property
    def epoch(self) -> int:
        """The newest known epoch."""

@final
class Guard:
    """All groups of a client: seals what it publishes, opens what it receives.

    Threads may share it. A child of fork() may not use its parent's."""

    def __new__(
        cls,
        keys: Sequence[_Path],
        *,
        state: Optional[_Path] = None,
        publisher: Optional[str] = None,
        device: Optional[_Path] = None,
    ) -> Guard:
        """Reads group files.

        state: directory of sequence numbers, needed for sealing; one process at a time has it.
        publisher: name, unique in the group; default: the device's.
        device: the device's own key, for groups with a manager."""

    @property
    def rotation_topics(self) -> list[str]:
        """Topics to subscribe to as well, whose messages `open` follows."""

    @property
    def has_keys(self) -> bool:
        """Whether every group has a key."""

    def covers(self, topic: str) -> bool:
        """Whether a group protects a topic."""

    def seal(self, topic: str, payload: _Payload) -> bytes:
        """Seals a payload. Its number is reserved on the disk before."""

    def seal_many(self, pairs: Sequence[tuple[str, _Payload]]) -> list[bytes]:
        """Seals pairs of topic and payload, while other threads run."""

    def open(self, topic: str, message: _Payload, *, durable: bool = True) -> Union[Message, Rotation]:
        """Opens a message.

        durable: with a state directory, returns once its number is on the disk, so that it is not
        accepted again after a restart. Acknowledge it to the broker after that. False suits QoS 0:
        the number is written with the next durable call, after 4,096 messages, or by `flush` and
        `close`."""

    def open_many(
        self, pairs: Sequence[tuple[str, _Payload]], *, durable: bool = True
    ) -> list[Union[Message, Rotation, RefusedError, NoGroupError]]:
        """Opens pairs of topic and message with one write, while other threads run. The exception of
        a refused message is in its place."""

    def flush(self) -> None:
        """Writes the numbers of what was opened without `durable`."""

    def idle(self) -> None:
        """Prepares the next payloads. Call it when there is nothing to do."""

    def close(self) -> None:
        """Writes the state and ends. A guard in a `with` block is closed at its end."""

    def __enter__(self) -> Guard: ...
    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None: ...
