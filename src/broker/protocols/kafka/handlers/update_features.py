"""UpdateFeatures, v0-2. v1 upgrade type, validate_only; v2 one error for all, no results.

Levels are fixed: a request for the current level succeeds and changes nothing, any other is
refused. An error of one feature refuses the whole request.
"""

from typing import TYPE_CHECKING

from broker.core.security.acls import Operation
from broker.core.session import Session
from broker.model.errors import ErrorCode, RequestError
from broker.protocols.kafka.api import Api, Request, outcome, refuse_with_message
from broker.protocols.kafka.features import FEATURES
from broker.protocols.kafka.operations import on_cluster

if TYPE_CHECKING:
    from broker.codec import bodies

_ONE_ERROR_SINCE = 2


def handle(
    request: "Request[bodies.UpdateFeaturesRequest]", _session: Session
) -> "bodies.UpdateFeaturesResponse":
    """Refuse every change of a level."""
    names = [update["feature"] for update in request.body["feature_updates"]]
    if len(set(names)) < len(names):
        raise RequestError(ErrorCode.INVALID_REQUEST, "the request names a feature twice")
    results = [_result(update) for update in request.body["feature_updates"]]
    refused = [each for each in results if each["error_code"]]
    if request.version < _ONE_ERROR_SINCE or not refused:
        return {"error_code": 0, "error_message": None, "results": results}
    text = f"no feature is updated, because of {refused[0]['feature']}"
    return {
        "error_code": refused[0]["error_code"],
        "error_message": f"{text}: {refused[0]['error_message']}",
    }


def _result(
    update: "bodies.UpdateFeaturesRequestFeatureUpdate",
) -> "bodies.UpdateFeaturesResponseResult":
    refusal = None
    try:
        _check(update["feature"], update["max_version_level"])
    except RequestError as error:
        refusal = error
    return {"feature": update["feature"], **outcome(refusal)}


def _check(name: str, level: int) -> None:
    feature = FEATURES.get(name)
    if feature is None:
        text = f"unknown feature {name!r:.100}"
        raise RequestError(ErrorCode.INVALID_UPDATE_VERSION, text)
    if level != feature.level:
        text = f"{name} has level {feature.level}, and cannot be changed to {level}"
        raise RequestError(ErrorCode.INVALID_UPDATE_VERSION, text)


API = Api(
    57, "UpdateFeatures", range(3), handle, (on_cluster(Operation.ALTER),), refuse_with_message
)
