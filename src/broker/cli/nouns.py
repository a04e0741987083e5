"""The first words of command lines, with their purpose, without importing what they name."""

from typing import Final

COMPLETION: Final = "_BROKER_COMPLETE"  # the variable with which a shell asks what may follow

# Commands in the frame of frame.py: the package or module of each has NOUN. `start` is not one.
NOUNS: Final = {
    "acl": "allow principals what they need of topics and groups, and see what is allowed",
    "audit": "check the chain of the audit's events",
    "bench": "measure what a running broker does, for a few seconds",
    "cert": "make an authority and certificates for TLS",
    "client": "see who is connected",
    "cluster": "see the brokers and whether they are well",
    "config": "see, explain, check and change settings of topics, brokers, groups and users",
    "debug": "collect what helps whoever is asked for help",
    "demo": "fill a broker with a sample stream, and say what to look at",
    "doctor": "look for what is wrong with a machine, a configuration, a data directory, brokers",
    "docs": "show the documents that are installed with the broker",
    "generate": "print files for other programs: units, dashboards, alerts, clients, completion",
    "group": "see groups and their lag, set their offsets, and learn why they do not consume",
    "import": "import another server's data into a running broker",
    "metadata": "export, import and repair the metadata of brokers that are stopped",
    "pipeline": "archive, replay, dedupe and audit topics; show the lag of groups",
    "profile": "keep addresses and settings of brokers under a name",
    "segment": "verify or dump the segment files of a log",
    "snapshot": "create hard links of a running broker's files, to be read without it",
    "topic": "create, look at, change, copy, read, write and delete topics",
    "txn": "see transactions, and abort those that hang",
    "user": "create, list and delete users, and set their passwords",
    "version": "print the versions of the broker and of what it uses",
}
_KEYWORDS: Final = {"import": "importing"}  # words that cannot be the name of a module


def module_of(noun: str) -> str:
    """Return the name of a noun's module."""
    return f"broker.cli.{_KEYWORDS.get(noun, noun)}"
