"""What all tests have in common: examples that are the same everywhere, and interrupts."""

import signal

from hypothesis import HealthCheck, settings

settings.register_profile(
    "kvmark", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
# `make test-long`: other examples each time, from the seed that it prints.
settings.register_profile(
    "long", settings.get_profile("kvmark"), derandomize=False, max_examples=1000, database=None,
    print_blob=True,
)  # fmt: skip
settings.load_profile("kvmark")

# What is started in the background has interrupts ignored, and so would all that it starts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
