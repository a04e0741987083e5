"""The clients in Go, compiled from go/."""

from pathlib import Path

from tests.compatibility.programs import (
    BUILD,
    FETCH_TIMEOUT_S,
    fetch_with,
    needs,
    one_at_a_time,
    run,
)

SOURCE = Path(__file__).parent / "go"
PROGRAM = BUILD / "go" / "clients"


@one_at_a_time()
def compiled() -> Path:
    """Return the program; go itself knows whether it is up to date.

    Raises UnavailableError when there is no Go, or when the libraries cannot be fetched.
    """
    needs("go", "compile the clients in Go")
    fetch_with(["go", "mod", "download"], SOURCE)
    run(["go", "build", "-o", str(PROGRAM), "."], SOURCE, FETCH_TIMEOUT_S)
    return PROGRAM
