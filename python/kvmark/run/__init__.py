"""Carries out one plan and closes its records."""

from kvmark.run.local import Carried, Progress, carry_out
from kvmark.run.setting import Setting, make_setting

__all__ = ["Carried", "Progress", "Setting", "carry_out", "make_setting"]
