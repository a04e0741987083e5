"""One JVM that runs Kafka's command line tools one after the other (programs/Tools.java)."""

import struct
import subprocess
import threading
from collections.abc import Sequence
from typing import IO, NamedTuple


class Done(NamedTuple):
    """How a tool ended, and what it wrote."""

    returncode: int
    stdout: str
    stderr: str


class ToolServer:
    """The process; a tool that takes too long ends it, the next one starts another."""

    def __init__(self, command: Sequence[str]) -> None:
        """Keep the command line; the process starts with the first tool."""
        self._command = command
        self._process: subprocess.Popen[bytes] | None = None

    def run(self, words: Sequence[str], stdin: str, timeout_s: float) -> Done:
        """Run a main class with its arguments; TimeoutError when it does not end."""
        if self._process is None or self._process.poll() is not None:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE
            )
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        late = threading.Timer(timeout_s, process.kill)
        late.start()
        try:
            request = struct.pack(">i", len(words)) + b"".join(map(packed, (*words, stdin)))
            process.stdin.write(request)
            process.stdin.flush()
            [code] = struct.unpack(">i", exactly(process.stdout, 4))
            return Done(code, string(process.stdout), string(process.stdout))
        except (BrokenPipeError, EOFError) as error:
            raise TimeoutError(f"{words}: not done in {timeout_s} s, or the JVM died") from error
        finally:
            late.cancel()

    def close(self) -> None:
        """End the process if there is one."""
        if self._process is not None:
            self._process.communicate(timeout=300)


def packed(text: str) -> bytes:
    """Return a string as the program reads it."""
    data = text.encode()
    return struct.pack(">i", len(data)) + data


def string(stream: IO[bytes]) -> str:
    """Read a string."""
    [size] = struct.unpack(">i", exactly(stream, 4))
    return exactly(stream, size).decode()


def exactly(stream: IO[bytes], size: int) -> bytes:
    """Read so many bytes; EOFError when the process has ended."""
    data = stream.read(size)
    if len(data) < size:
        raise EOFError
    return data
