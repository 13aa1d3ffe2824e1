"""Audits of other tools: from the trace of a tap to facts."""
