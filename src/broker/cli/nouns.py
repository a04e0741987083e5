"""The first words of command lines, with their purpose, without importing what they name."""

from typing import Final

COMPLETION: Final = "_BROKER_COMPLETE"  # the variable with which a shell asks what may follow

# Clients of a broker in the frame of frame.py: broker.cli.<noun> has NOUN.
NOUNS: Final = {
    "bench": "measure what a running broker does, for a few seconds",
    "client": "see who is connected",
    "cluster": "see the brokers and whether they are well",
    "config": "see, explain, check and change settings of topics, brokers, groups and users",
    "debug": "collect what helps whoever is asked for help",
    "demo": "fill a broker with a sample stream, and say what to look at",
    "doctor": "look for what is wrong with a machine, a configuration, a data directory, brokers",
    "docs": "show the documents that are installed with the broker",
    "generate": "print files for other programs: units, dashboards, alerts, clients, completion",
    "group": "see groups and their lag, set their offsets, and learn why they do not consume",
    "profile": "keep addresses and settings of brokers under a name",
    "topic": "create, look at, change, copy, read, write and delete topics",
    "txn": "see transactions, and abort those that hang",
    "version": "print the versions of the broker and of what it uses",
}
# Commands with a parser of their own: broker.cli.<module> has run().
WITH_MODULES: Final = {
    "acl": ("acl", "allow principals what they need of topics and groups"),
    "audit": ("audit", "check the chain of the audit's events"),
    "cert": ("cert", "make an authority and certificates for TLS"),
    "import": ("importing", "import another server's data into a running broker"),
    "metadata": ("metadata", "export, import and repair the metadata of brokers that are stopped"),
    "pipeline": ("pipeline", "archive, replay, dedupe and audit topics; show the lag of groups"),
    "segment": ("segment", "verify or dump the segment files of a log"),
    "snapshot": (
        "snapshot",
        "create hard links of a running broker's files, to be read without it",
    ),
    "user": ("user", "create, list and delete users, and set their passwords"),
}
