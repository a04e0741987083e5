"""TLS beside plain connections and beside OpenSSL's own speed."""
