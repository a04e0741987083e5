"""ApiVersions, v0-4. v1 throttle time; v3 flexible, client software (KIP-511); v4 features from 0.

An unsupported version is answered in version 0 with error 35 and the list of APIs, so that the
client can retry in a supported version. Features: KIP-584.
"""

import re
from typing import TYPE_CHECKING

from broker.core.session import Session
from broker.model.errors import ErrorCode
from broker.model.http_limits import CLIENT_TEXT_CHARS_MAX
from broker.protocols.kafka import errors, features
from broker.protocols.kafka.api import Api, Request

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.codec import bodies

KEY = 18
_SOFTWARE_SINCE = 3
_FEATURES_FROM_0_SINCE = 4
_SOFTWARE = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?")


def build(advertised: "Callable[[], list[bodies.ApiVersionsResponseApiKey]]") -> Api:
    """Create the API; `advertised` returns the list of APIs, which has this one too."""

    def handle(
        request: "Request[bodies.ApiVersionsRequest]", session: Session
    ) -> "bodies.ApiVersionsResponse":
        software = _software(request)
        is_valid = all(_SOFTWARE.fullmatch(each) for each in software)
        if software and is_valid:
            name, version = (each[:CLIENT_TEXT_CHARS_MAX] for each in software)
            session.software = name, version
        code = ErrorCode.NONE if is_valid else ErrorCode.INVALID_REQUEST
        api_keys = advertised() if code is ErrorCode.NONE else []
        return {
            "error_code": errors.number(code),
            "api_keys": api_keys,
            "supported_features": features.supported(
                with_lowest_0=request.version >= _FEATURES_FROM_0_SINCE
            ),
            "finalized_features_epoch": features.EPOCH,
            "finalized_features": features.finalized(),
        }

    return Api(KEY, "ApiVersions", range(5), handle, ())


def unsupported(api_keys: "list[bodies.ApiVersionsResponseApiKey]") -> "bodies.ApiVersionsResponse":
    """Return the response to an unsupported version, to be encoded in version 0."""
    return {"error_code": errors.number(ErrorCode.UNSUPPORTED_VERSION), "api_keys": api_keys}


def _software(request: "Request[bodies.ApiVersionsRequest]") -> tuple[str, ...]:
    """Return the name and the version that a client gives; nothing before version 3."""
    if request.version < _SOFTWARE_SINCE:
        return ()
    return request.body["client_software_name"], request.body["client_software_version"]
