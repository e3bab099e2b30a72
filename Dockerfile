# The product's image: web, worker, beat and watcher are the same image with another command (see Procfile).
# The tests build it without Docker, by these very steps, and run it on a real node (tests/node/test_own_images.py). It
# was not built by Docker there, and Debian's Python stood for the base image.
FROM python:3.11-slim-bookworm AS packages
WORKDIR /build
COPY requirements/base.txt requirements/terminal.txt requirements/
RUN python -m venv /opt/allotment \
    && /opt/allotment/bin/pip install --no-cache-dir --require-hashes --only-binary :all: -r requirements/base.txt
COPY portal portal
COPY apps apps
RUN /opt/allotment/bin/python -m portal.packages.terminal_files

# The node agent: `docker build --target agent -t allotment-agent:0.1.0 .` (docs/agent.md).
FROM python:3.11-slim-bookworm AS agent-packages
WORKDIR /build
COPY requirements/agent.txt .
RUN python -m venv /opt/agent \
    && /opt/agent/bin/pip install --no-cache-dir --require-hashes --only-binary :all: -r agent.txt

FROM python:3.11-slim-bookworm AS agent
ENV PATH=/opt/agent/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
WORKDIR /srv/agent
COPY --from=agent-packages /opt/agent /opt/agent
COPY agent agent
# Numeric, and changed to root by the DaemonSet: the kubelet's socket is root's alone.
USER 10001
EXPOSE 9400
ENTRYPOINT ["python", "-m", "agent"]

FROM python:3.11-slim-bookworm AS product
ENV PATH=/opt/allotment/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 \
    ALLOTMENT_HOME=/var/lib/allotment ALLOTMENT_BIND=0.0.0.0 \
    WEB_CONCURRENCY=1 MALLOC_ARENA_MAX=1
# The group too by its number: the chart runs it as 10001, and Celery takes a group without a name for a danger.
RUN groupadd --system --gid 10001 allotment \
    && useradd --system --uid 10001 --gid 10001 --home-dir /var/lib/allotment --create-home allotment
WORKDIR /srv/allotment
COPY --from=packages /opt/allotment /opt/allotment
COPY manage.py Procfile ./
COPY portal portal
COPY apps apps
COPY templates templates
COPY static static
# Else each process would compile all of it at each start: a second of CPU for the web.
RUN python -m compileall -q portal apps
# Production's file names carry hashes; the settings here are only as valid as collecting needs.
RUN ALLOTMENT_MODE=production ALLOTMENT_SECRET_KEY=collectstatic-needs-no-secret-but-the-settings-do \
    ALLOTMENT_PUBLIC_URL=https://collect.invalid ALLOTMENT_DATABASE_URL=postgresql://none@localhost/none \
    python manage.py collectstatic --noinput --verbosity 0 && chown -R allotment /var/lib/allotment
USER 10001
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=3s --start-period=20s \
    CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8000/healthz', timeout=2)"]
CMD ["uvicorn", "portal.asgi:application", "--host", "0.0.0.0", "--port", "8000", "--lifespan", "on", \
     "--no-proxy-headers", "--http", "portal.protocol:Protocol", "--timeout-graceful-shutdown", "3"]

# The demo: the product with its sandbox and a Redis of its own (`docker compose --profile demo up`).
FROM product AS demo
USER 0
COPY requirements requirements
RUN python -m portal.packages.embedded_redis
COPY sandbox sandbox
RUN python -m compileall -q sandbox
USER 10001
CMD ["python", "-m", "portal.demo"]

# The product with what sends traces: `docker build --target traced` (docs/operating.md, Tracing).
FROM product AS traced
USER 0
COPY requirements/tracing.txt requirements/
RUN pip install --no-cache-dir --require-hashes --only-binary :all: -r requirements/tracing.txt
USER 10001

# What is built unless another target is named.
FROM product
