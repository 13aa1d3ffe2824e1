"""The engine's own cost, measured through the command line that users type."""
