# vault-mcp in a container: no root, nothing to write outside of STATE_DIR. docs/docker.md says how to use it
# and how to pin the base by its digest.
ARG PYTHON=python:3.13.16-slim-trixie

FROM ${PYTHON} AS build
WORKDIR /src
RUN python3 -m venv /opt/vault-mcp
COPY requirements.lock ./
RUN /opt/vault-mcp/bin/pip install --no-cache-dir --require-hashes --requirement requirements.lock
COPY pyproject.toml README.md LICENSE ./
COPY server server
# What builds is of no use to what serves.
RUN /opt/vault-mcp/bin/pip install --no-cache-dir --no-deps --no-build-isolation . \
 && /opt/vault-mcp/bin/pip uninstall --yes --quiet hatchling editables trove-classifiers pluggy pip

FROM ${PYTHON}
LABEL org.opencontainers.image.title="obsidian-vault-mcp" \
      org.opencontainers.image.licenses="MIT"
# The folder exists, so that a new volume takes over its owner.
RUN groupadd --gid 10001 vault-mcp \
 && useradd --uid 10001 --gid 10001 --home-dir /var/lib/vault-mcp --no-create-home --shell /usr/sbin/nologin vault-mcp \
 && install --directory --owner 10001 --group 10001 --mode 0700 /var/lib/vault-mcp
COPY --from=build /opt/vault-mcp /opt/vault-mcp
ENV PATH=/opt/vault-mcp/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    HOST=0.0.0.0 \
    PORT=1065 \
    VAULT_PATH=/mnt/vault/drive \
    STATE_DIR=/var/lib/vault-mcp
USER 10001:10001
WORKDIR /var/lib/vault-mcp
VOLUME /var/lib/vault-mcp
EXPOSE 1065
STOPSIGNAL SIGTERM
# The process alone: a mount that is away is no reason to restart it.
HEALTHCHECK --interval=30s --timeout=10s --start-period=60s --retries=3 \
    CMD ["python3", "-c", "import os, urllib.request as r; r.urlopen(f'http://127.0.0.1:{os.environ[\"PORT\"]}/healthz', timeout=8)"]
ENTRYPOINT ["vault-mcp"]
CMD ["serve"]
