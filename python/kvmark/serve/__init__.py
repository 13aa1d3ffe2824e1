"""The runs on disk as a small web application for this machine: it reads, and writes nothing.

`library` says which runs may be seen, `watching` reads one that goes, `pages` makes pages of the
report's own parts, `app` knows the addresses, `guard` refuses whoever isn't this machine's user,
and `server` listens on 127.0.0.1. FastAPI and uvicorn come with the extra `serve`.
"""
