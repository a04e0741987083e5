"""Apache Kafka's own programs and clients: jars of pinned releases, fetched once through Maven.

They are kept under the git-ignored build/ folder. `KAFKA_LIBS=folder` uses jars of the newest
release that are already somewhere.
"""

import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tests.compatibility.java.server import Done, ToolServer
from tests.compatibility.programs import (
    BUILD,
    facts_of,
    fetch_with,
    needs,
    one_at_a_time,
    run,
)

HERE = Path(__file__).parent
PROGRAMS = HERE / "programs"
TOOL_TIMEOUT_S = 300
TOOLS_HEAP = "512m"
# As Kafka's own kafka-run-class.sh: little memory, and soon ready rather than fast in the end.
SHORT_LIVED = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
JAVA = ("java", *SHORT_LIVED)
LOGGING = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"

DEPENDENCY = """    <dependency>
      <groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version>
    </dependency>
"""
POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>polylog</groupId><artifactId>kafka-tools</artifactId><version>1</version>
  <dependencies>
{}  </dependencies>
</project>
"""


@dataclass(frozen=True)
class Release:
    """Artifacts of one version of Kafka; Maven resolves their dependencies."""

    version: str
    artifacts: tuple[str, ...]

    @property
    def folder(self) -> Path:
        """Where its jars are fetched to."""
        return BUILD / f"kafka-{self.version}"

    @property
    def pom(self) -> str:
        """The project that has them as its dependencies."""
        wanted = [("org.apache.kafka", artifact, self.version) for artifact in self.artifacts]
        wanted.append(("org.slf4j", "slf4j-simple", "1.7.36"))
        return POM.format("".join(DEPENDENCY.format(*names) for names in wanted))


NEWEST = Release(
    "4.3.1", ("kafka_2.13", "kafka-tools", "kafka-streams", "connect-file", "connect-mirror")
)
# The last line of clients before Kafka 4: most Java programs have one of these.
OLDER = Release("3.9.1", ("kafka-clients",))


@dataclass(frozen=True)
class JavaTools:
    """A folder of jars, and a JVM that runs the tools among them."""

    libs: Path

    def command(self, program: str, *arguments: str, heap: str = "256m") -> list[str]:
        """Return the command that runs a main class, or a source file of the folder java/."""
        places = f"{self.libs}/*"
        if program.endswith(".java"):
            places += f":{self._compiled(PROGRAMS / program)}"
        main = program.removesuffix(".java")
        return [*JAVA, f"-Xmx{heap}", LOGGING, "-cp", places, main, *arguments]

    @one_at_a_time()
    def _compiled(self, source: Path) -> Path:
        """Compile a program unless that was done, and return the folder of its classes."""
        classes = BUILD / "classes" / f"{self.libs.parent.name}-{self.libs.name}" / source.stem
        done = classes / f"{source.stem}.class"
        if not done.exists() or done.stat().st_mtime < source.stat().st_mtime:
            compiler = ["java", "-m", "jdk.compiler/com.sun.tools.javac.Main", "-nowarn"]
            jars = ":".join(map(str, self.libs.glob("*.jar")))
            run([*compiler, "-cp", jars, "-d", str(classes), str(source)])
        return classes

    def run(self, tool: str, *arguments: str, stdin: str = "") -> str:
        """Run a tool of Kafka's and return what it printed; fail unless it exits with 0."""
        done = self._server.run((tool, *arguments), stdin, TOOL_TIMEOUT_S)
        return _printed(done, (tool, *arguments)) + done.stderr

    def run_alone(self, program: str, *arguments: str) -> str:
        """Run a tool, or a program of java/, in a JVM of its own; what it wrote to stdout.

        Tools that end their work in a shutdown hook of the JVM have to run so.
        """
        command = self.command(program, *arguments)
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=TOOL_TIMEOUT_S, check=False
        )
        return _printed(Done(done.returncode, done.stdout, done.stderr), command)

    def facts(self, program: str, *arguments: str) -> dict[str, str]:
        """Run a program of java/ and return the `name=value` lines that it printed."""
        return facts_of(self.run_alone(program, *arguments))

    def close(self) -> None:
        """End the JVM of the tools."""
        self._server.close()

    @cached_property
    def _server(self) -> ToolServer:
        """The JVM of this process in which tools run: to start one takes longer than they do."""
        own = [*self.libs.glob("kafka-tools-*.jar"), *self.libs.glob("kafka_2*.jar")]
        return ToolServer(self.command("Tools.java", *map(str, own), heap=TOOLS_HEAP))


def _printed(done: Done, command: Sequence[str]) -> str:
    assert done.returncode == 0, f"{command}: {done.stdout}\n{done.stderr}"
    return done.stdout


@one_at_a_time()
def find(release: Release = NEWEST) -> JavaTools:
    """Return a release's jars, fetching them first if need be."""
    needs("java", "run Kafka's programs")
    given = os.environ.get("KAFKA_LIBS")
    if given and release is NEWEST:
        return JavaTools(Path(given))
    complete = release.folder / ".complete"  # contains the project that is complete
    if not complete.exists() or complete.read_text() != release.pom:
        fetch(release)
        complete.write_text(release.pom)
    return JavaTools(release.folder / "jars")


def fetch(release: Release) -> None:
    """Let Maven copy the jars."""
    needs("mvn", "fetch Kafka's jars")
    release.folder.mkdir(parents=True, exist_ok=True)
    (release.folder / "pom.xml").write_text(release.pom)
    command = ["mvn", "-q", "-B", "dependency:copy-dependencies", "-DincludeScope=runtime"]
    fetch_with([*command, f"-DoutputDirectory={release.folder / 'jars'}"], release.folder)
