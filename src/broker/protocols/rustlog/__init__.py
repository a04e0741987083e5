"""RustLog's protocol in its binary and its JSON form; README.md describes the modules."""
