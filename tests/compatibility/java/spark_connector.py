"""Spark's own Kafka connector: its jars, fetched once through Maven. PyPI has none of them."""

from pathlib import Path

from tests.compatibility.programs import BUILD, fetch_with, needs, one_at_a_time

# Dependencies of the connector that Spark does not have; newer ones are not published.
JARS = (
    ("org.apache.spark", "spark-sql-kafka-0-10_2.13", "4.2.0"),
    ("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", "4.0.0"),
    ("org.apache.kafka", "kafka-clients", "3.9.2"),
    ("org.apache.commons", "commons-pool2", "2.13.1"),
)
DEPENDENCY = """    <dependency>
      <groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version>
      <exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>
    </dependency>
"""
POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>polylog</groupId><artifactId>spark-connector</artifactId><version>1</version>
  <dependencies>
{}  </dependencies>
</project>
"""


@one_at_a_time()
def find() -> list[Path]:
    """The connector's jars, fetched first if need be."""
    folder = BUILD / "spark-connector"
    pom = POM.format("".join(DEPENDENCY.format(*names) for names in JARS))
    complete = folder / ".complete"
    if not complete.exists() or complete.read_text() != pom:
        needs("mvn", "fetch Spark's Kafka connector")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "pom.xml").write_text(pom)
        command = ["mvn", "-q", "-B", "dependency:copy-dependencies", "-DincludeScope=runtime"]
        fetch_with([*command, f"-DoutputDirectory={folder / 'jars'}"], folder)
        complete.write_text(pom)
    return [folder / "jars" / f"{name}-{version}.jar" for _, name, version in JARS]
