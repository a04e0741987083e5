"""Programs that produce and consume one record, for a listener.

The banner has one, and `broker generate client-snippet` prints them.

Names of users and files are examples; whoever copies a program puts in their own.
"""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

_USER: Final = "alice"
_PASSWORD: Final = "..."  # noqa: S105 - what a reader replaces
_CA_FILE: Final = "ca.pem"


class Access(NamedTuple):
    """How a client reaches a listener.

    Attributes:
        address: HOST:PORT.
        protocol: Kafka's name: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL.
        mechanism: of SASL; empty without a login.
        topic: that the program uses.
    """

    address: str
    protocol: str = "PLAINTEXT"
    mechanism: str = ""
    topic: str = "greetings"


def librdkafka_settings(access: Access) -> dict[str, str]:
    """Return what librdkafka, and the clients that use it, set for a listener."""
    settings = {}
    if access.protocol != "PLAINTEXT":
        settings["security.protocol"] = access.protocol
    if access.protocol.endswith("SSL"):
        settings["ssl.ca.location"] = _CA_FILE
    if access.protocol.startswith("SASL_"):
        # Without it librdkafka takes GSSAPI, which no listener offers.
        settings["sasl.mechanism"] = access.mechanism
        if access.mechanism != "OAUTHBEARER":
            settings |= {"sasl.username": _USER, "sasl.password": _PASSWORD}
    return settings


def java_settings(access: Access) -> dict[str, str]:
    """Return what clients for Java, and Kafka's own commands, set for a listener."""
    settings = {}
    if access.protocol != "PLAINTEXT":
        settings["security.protocol"] = access.protocol
    if access.protocol.endswith("SSL"):
        settings |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": _CA_FILE}
    if access.protocol.startswith("SASL_"):
        settings["sasl.mechanism"] = access.mechanism
        settings["sasl.jaas.config"] = _jaas(access.mechanism)
    return settings


def _jaas(mechanism: str) -> str:
    modules = {
        "PLAIN": "plain.PlainLoginModule",
        "OAUTHBEARER": "oauthbearer.OAuthBearerLoginModule",
    }
    module = modules.get(mechanism, "scram.ScramLoginModule")
    login = "" if mechanism == "OAUTHBEARER" else f' username="{_USER}" password="{_PASSWORD}"'
    return f"org.apache.kafka.common.security.{module} required{login};"


def python_producer(access: Access, indent: str = "") -> str:
    """Return the shortest producer for Python."""
    lines = (
        "from confluent_kafka import Producer",
        "",
        f"producer = Producer({_python_settings(access)})",
        f'producer.produce("{access.topic}", b"hello")',
        "producer.flush()",
    )
    return "".join(f"{indent}{line}".rstrip() + "\n" for line in lines)


def _python(access: Access) -> str:
    settings = _python_settings(
        access, ' | {"group.id": "readers", "auto.offset.reset": "earliest"}'
    )
    return f"""\
# pip install confluent-kafka
from confluent_kafka import Consumer, Producer

producer = Producer({_python_settings(access)})
producer.produce("{access.topic}", b"hello")
producer.flush()
consumer = Consumer({settings})
consumer.subscribe(["{access.topic}"])
print(consumer.poll(10).value())
consumer.close()
"""


def _python_settings(access: Access, more: str = "") -> str:
    pairs = {"bootstrap.servers": access.address, **librdkafka_settings(access)}
    return "{" + ", ".join(f'"{name}": "{value}"' for name, value in pairs.items()) + "}" + more


def _java(access: Access) -> str:
    pairs = {"bootstrap.servers": access.address, **java_settings(access)}
    lines = [
        f"    settings.put({_quoted(name)}, {_quoted(value)});" for name, value in pairs.items()
    ]
    return f"""\
// With org.apache.kafka:kafka-clients on the class path: java Hello.java
import java.time.Duration;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

public class Hello {{
  public static void main(String[] arguments) {{
    Properties settings = new Properties();
{chr(10).join(lines)}
    settings.put("group.id", "readers");
    settings.put("auto.offset.reset", "earliest");
    var out = new StringSerializer();
    try (var producer = new KafkaProducer<>(settings, out, out)) {{
      producer.send(new ProducerRecord<>("{access.topic}", "hello"));
    }}
    var in = new StringDeserializer();
    try (var consumer = new KafkaConsumer<>(settings, in, in)) {{
      consumer.subscribe(List.of("{access.topic}"));
      for (int turn = 0; turn < 10; turn++) {{
        for (var record : consumer.poll(Duration.ofSeconds(1))) {{
          System.out.println(record.value());
          return;
        }}
      }}
    }}
  }}
}}
"""


def _go(access: Access) -> str:
    pairs = {"bootstrap.servers": access.address, **librdkafka_settings(access)}
    lines = [f"\t\t{_quoted(name)}: {_quoted(value)}," for name, value in pairs.items()]
    return f"""\
// go get github.com/confluentinc/confluent-kafka-go/v2/kafka
package main

import (
\t"fmt"
\t"time"

\t"github.com/confluentinc/confluent-kafka-go/v2/kafka"
)

func settings() kafka.ConfigMap {{
\treturn kafka.ConfigMap{{
{chr(10).join(lines)}
\t}}
}}

func main() {{
\ttopic := "{access.topic}"
\tproducing := settings()
\tproducer, err := kafka.NewProducer(&producing)
\tif err != nil {{
\t\tpanic(err)
\t}}
\tto := kafka.TopicPartition{{Topic: &topic, Partition: kafka.PartitionAny}}
\tmessage := &kafka.Message{{TopicPartition: to, Value: []byte("hello")}}
\tif err := producer.Produce(message, nil); err != nil {{
\t\tpanic(err)
\t}}
\tproducer.Flush(10000)
\tconsuming := settings()
\tconsuming["group.id"] = "readers"
\tconsuming["auto.offset.reset"] = "earliest"
\tconsumer, err := kafka.NewConsumer(&consuming)
\tif err != nil {{
\t\tpanic(err)
\t}}
\tif err := consumer.Subscribe(topic, nil); err != nil {{
\t\tpanic(err)
\t}}
\tmessage, err = consumer.ReadMessage(10 * time.Second)
\tif err != nil {{
\t\tpanic(err)
\t}}
\tfmt.Println(string(message.Value))
\tconsumer.Close()
}}
"""


def _shell(access: Access) -> str:
    options = "".join(
        f" -X '{name}={value}'" for name, value in librdkafka_settings(access).items()
    )
    return f"""\
echo hello | kcat -b {access.address}{options} -P -t {access.topic}
kcat -b {access.address}{options} -C -t {access.topic} -o beginning -e
"""


def _properties(access: Access) -> str:
    pairs = {"bootstrap.servers": access.address, **java_settings(access)}
    return "".join(f"{name}={value}\n" for name, value in pairs.items())


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


SNIPPETS: Final[Mapping[str, Callable[[Access], str]]] = {
    "python": _python,
    "java": _java,
    "go": _go,
    "shell": _shell,
    "properties": _properties,
}
