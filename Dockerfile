# kvmark from its wheel (`make wheel`), without a compiler: docker build -t kvmark .
# scripts/fresh.py carries these steps out on a fresh Debian 12, where there is no Docker.
FROM debian:12-slim
RUN apt-get -qq update && apt-get -qq install -y --no-install-recommends python3-venv && rm -rf /var/lib/apt/lists/*
COPY dist/*.whl /tmp/
RUN python3 -m venv /opt/kvmark
RUN /opt/kvmark/bin/pip install --quiet --no-cache-dir "$(ls /tmp/kvmark-*_$(uname -m).whl)[serve]" && rm /tmp/kvmark-*.whl
ENV PATH=/opt/kvmark/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
WORKDIR /data
ENTRYPOINT ["kvmark"]
CMD ["--help"]
