"""Settings in the environment of Kafka's container images.

    KAFKA_NUM_PARTITIONS=3        apache/kafka and confluentinc/cp-kafka: _ stands for a dot
    KAFKA_CFG_NUM_PARTITIONS=3    bitnami/kafka; it precedes the other form

Only names of listeners have - and _ in them. Two and three _ in a row stand for these characters,
in this order for Confluent's images and in the other one for Apache's: the one that is the name of
a listener is meant.

Images read other variables, too. Those that name files of the broker are read as by the images
(image_files.py); the others are ignored, and so are variables that resemble no setting: programs
beside the broker may have them.
"""

import re
from collections.abc import Mapping
from typing import Final

from broker.model.given import Given, environment_name, nearest_name
from broker.model.image_files import given_by_files
from broker.model.listener import PREFIX, SEPARATOR
from broker.model.unused_settings import accepted_names

_PREFIX: Final = "KAFKA_"
_BITNAMI_PREFIX: Final = "KAFKA_CFG_"
_LISTENER: Final = environment_name("", PREFIX)
# What images use otherwise: the JVM, logs, files with passwords, users that bitnami's creates.
_OF_IMAGES: Final = re.compile(
    r"KAFKA_("
    r"ADDITIONAL_\w+|BASE_DIR|CERTIFICATE_PASSWORD|CLIENT_(USERS|PASSWORDS)|CLUSTER_ID|CONF_DIR"
    r"|CONTROLLER_(USER|PASSWORD)|DAEMON_\w+|DEBUG|ENABLE_KRAFT|EXTRA_\w+|GC_LOG_OPTS|HEAP_OPTS?"
    r"|HOME|INITIAL_CONTROLLERS|INIT_\w+|INTER_BROKER_(USER|PASSWORD)|JMX_\w+"
    r"|JVM_PERFORMANCE_OPTS|KRAFT_\w+|LOG4J\w*|MODE|MOUNTED_\w+|OPTS|SKIP_\w+"
    r"|SSL_\w+_(CREDENTIALS|FILENAME)|TLS_\w+|TOOLS_LOG4J\w*|VERSION|VOLUME_DIR)"
)
# Alike enough to be a mistake: KAFKA_NUM_PARTITION is, KAFKA_BOOTSTRAP_SERVERS is not.
_MISTAKE: Final = 0.85


def read_variables(
    environment: Mapping[str, str], faults: list[str], ignored: list[str], *, has_listeners: bool
) -> list[Given]:
    """Return the settings in the variables of an environment, which all begin with KAFKA_.

    As in Confluent's images, listeners follow from advertised ones, on all addresses, if they are
    given nowhere, for which `has_listeners` stands. Errors and variables that are not read are
    appended to the lists.
    """
    names = {environment_name("", name): name for name in accepted_names()}
    given: list[Given] = []
    words = environment.get("KAFKA_CFG_LISTENERS", environment.get("KAFKA_LISTENERS", ""))
    # Bitnami's form comes last: it precedes.
    for variable in sorted(environment, key=lambda each: each.startswith(_BITNAMI_PREFIX)):
        text = environment[variable]
        prefix = _BITNAMI_PREFIX if variable.startswith(_BITNAMI_PREFIX) else _PREFIX
        rest = variable.removeprefix(prefix)
        name = names.get(rest) or _other_name(rest, words)
        if name:
            given.append(Given(name, text, f"environment {variable}"))
        elif _OF_IMAGES.fullmatch(variable):
            ignored.append(variable)
        elif hint := nearest_name(rest, names, before=prefix, cutoff=_MISTAKE):
            faults.append(f"environment: {variable} is not a setting{hint}")
        else:
            ignored.append(variable)
    if not has_listeners and not words:
        given += _listeners(given)
    of_files = list(given_by_files(environment, faults))
    used = {each.origin.removeprefix("environment ") for each in of_files}
    ignored[:] = [each for each in ignored if each not in used]
    return given + of_files


def _other_name(rest: str, listeners: str) -> str:
    """Return the name of a setting of a listener, of ZooKeeper or of a plug-in; "": it is none."""
    if rest.startswith(("ZOOKEEPER_", "CONFLUENT_")):
        return rest.lower().replace("_", ".")
    if not rest.startswith(_LISTENER):
        return ""
    known = {word.rpartition(SEPARATOR)[0].strip().lower() for word in listeners.split(",")}
    readings = (_dotted(rest, "-", "_"), _dotted(rest, "_", "-"))
    return next((each for each in readings if _listener_of(each) in known), readings[0])


def _dotted(rest: str, two: str, three: str) -> str:
    signs = {1: ".", 2: two, 3: three}
    return re.sub("_{1,3}", lambda found: signs[len(found[0])], rest.lower())


def _listener_of(name: str) -> str:
    return name.removeprefix(PREFIX).partition(".")[0]


def _listeners(given: list[Given]) -> list[Given]:
    """Return listeners on all addresses, with the names and ports of the advertised ones."""
    advertised = [each for each in given if each.name == "advertised.listeners"]
    if not advertised:
        return []
    words = advertised[-1].text.split(",")
    everywhere = ",".join(re.sub(r"://.*:", "://0.0.0.0:", word.strip()) for word in words)
    return [Given("listeners", everywhere, advertised[-1].origin)]
