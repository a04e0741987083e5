"""UnregisterBroker, v0-0: take a broker out of the cluster (KIP-631).

A broker is registered while it runs, so only one that runs could be unregistered. That is refused,
because it would have to stop first: a broker that stops unregisters itself. In Apache Kafka a
registration remains after its broker has stopped, and this request removes it.
"""

from typing import TYPE_CHECKING

from broker.core.security.acls import Operation
from broker.core.session import Session
from broker.model.errors import ErrorCode, RequestError
from broker.protocols.kafka.api import Api, Request, refuse_with_message
from broker.protocols.kafka.operations import on_cluster

if TYPE_CHECKING:
    from broker.codec import bodies


def handle(
    request: "Request[bodies.UnregisterBrokerRequest]", session: Session
) -> "bodies.UnregisterBrokerResponse":
    """Refuse, with the reason."""
    broker_id = request.body["broker_id"]
    brokers = session.broker.cluster.brokers(*session.reached)
    if any(each.broker_id == broker_id for each in brokers):
        text = f"broker {broker_id} runs: stop it, and it unregisters itself"
        raise RequestError(ErrorCode.INVALID_REQUEST, text)
    text = f"broker {broker_id} is not registered"
    raise RequestError(ErrorCode.BROKER_ID_NOT_REGISTERED, text)


API = Api(
    64, "UnregisterBroker", range(1), handle, (on_cluster(Operation.ALTER),), refuse_with_message
)
