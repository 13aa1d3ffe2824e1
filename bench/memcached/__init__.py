"""kvmark on memcached, beside a bare loop."""
