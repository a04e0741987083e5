"""Limits of the audit, of key files and of secrets."""

from typing import Final

# A text from a client in an audit event, such as the name that a failed login claimed.
AUDIT_TEXT_CHARACTERS_MAX: Final = 512
# A file with a password, a key with its certificates, or trusted certificates.
SECRET_FILE_BYTES_MAX: Final = 1 << 20
