"""Property tests draw the same examples on every machine and are not timed."""

from hypothesis import settings

settings.register_profile("kvmark", derandomize=True, deadline=None)
settings.load_profile("kvmark")
