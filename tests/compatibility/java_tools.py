"""Apache Kafka's own command line tools: jars of one pinned release, fetched once through Maven.

They are kept under the git-ignored build/ folder. `KAFKA_LIBS=folder` uses jars that are already
somewhere.
"""

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

VERSION = "4.3.1"
FOLDER = Path(__file__).parents[2] / "build" / f"kafka-{VERSION}"
FETCH_TIMEOUT_S = 600
TOOL_TIMEOUT_S = 90

POM = f"""<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>polylog</groupId><artifactId>kafka-tools</artifactId><version>1</version>
  <dependencies>
    <dependency>
      <groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId>
      <version>{VERSION}</version>
    </dependency>
    <dependency>
      <groupId>org.apache.kafka</groupId><artifactId>kafka-tools</artifactId>
      <version>{VERSION}</version>
    </dependency>
    <dependency>
      <groupId>org.slf4j</groupId><artifactId>slf4j-simple</artifactId><version>1.7.36</version>
    </dependency>
  </dependencies>
</project>
"""


class UnavailableError(Exception):
    """The tools cannot be had here; the message says why."""


@dataclass(frozen=True)
class JavaTools:
    """A folder of jars."""

    libs: Path

    def run(self, tool: str, *arguments: str, stdin: str = "", heap: str = "256m") -> str:
        """Run a tool's main class and return what it printed; fail unless it exits with 0."""
        command = ["java", f"-Xmx{heap}", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        command += ["-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]
        done = subprocess.run(
            [*command, "-cp", f"{self.libs}/*", tool, *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=TOOL_TIMEOUT_S,
            check=False,
        )
        assert done.returncode == 0, f"{tool}: {done.stdout}\n{done.stderr}"
        return done.stdout + done.stderr


def find() -> JavaTools:
    """Return the tools, fetching them first if need be."""
    if not shutil.which("java"):
        raise UnavailableError("no java on the path")
    given = os.environ.get("KAFKA_LIBS")
    if given:
        return JavaTools(Path(given))
    complete = FOLDER / ".complete"
    if not complete.exists():
        fetch(FOLDER)
        complete.touch()
    return JavaTools(FOLDER / "jars")


def fetch(folder: Path) -> None:
    """Let Maven copy the jars."""
    if not shutil.which("mvn"):
        raise UnavailableError("no mvn on the path to fetch Kafka's jars with")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "pom.xml").write_text(POM)
    command = ["mvn", "-q", "-B", "dependency:copy-dependencies", "-DincludeScope=runtime"]
    done = subprocess.run(
        [*command, f"-DoutputDirectory={folder / 'jars'}"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=FETCH_TIMEOUT_S,
        check=False,
    )
    if done.returncode:
        raise UnavailableError(f"mvn could not fetch Kafka's jars: {done.stdout[-500:]}")
