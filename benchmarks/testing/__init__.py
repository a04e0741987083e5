"""The test fixture, broker.testing."""
