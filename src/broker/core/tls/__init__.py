"""TLS without sockets: what certificates say, and what OpenSSL is given to serve a listener."""
