# docker build -t mochi-server .
# docker run --init --add-host host.docker.internal:host-gateway \
#     -p 127.0.0.1:8000:8000 -v mochi:/data mochi-server
# The digest, of the index for all architectures, makes builds of other days the same.
ARG PYTHON_IMAGE=python:3.13-slim@sha256:7c61056e61ac89e852de05f3dc6fa51a6dd2181797bceed46aa725dd7cb2cd3b
FROM ${PYTHON_IMAGE} AS build
RUN pip install --no-cache-dir uv==0.13.9
WORKDIR /src
COPY . .
ENV UV_PROJECT_ENVIRONMENT=/opt/mochi UV_LINK_MODE=copy UV_COMPILE_BYTECODE=1
# The constraints in pyproject.toml choose the versions that were tested, of the build's packages too.
RUN uv sync --no-default-groups --no-editable --no-cache --extra cluster --extra metrics --extra otel

FROM ${PYTHON_IMAGE}
LABEL org.opencontainers.image.source=https://github.com/mochi-server/mochi-server \
    org.opencontainers.image.licenses=MIT
RUN useradd --create-home --uid 1000 mochi && install -d -o mochi -g mochi -m 0700 /data
COPY --from=build /opt/mochi /opt/mochi
USER 1000:1000
# Beyond loopback the server asks for a token: MOCHI_API_TOKEN, or the one it makes and prints.
ENV PATH=/opt/mochi/bin:$PATH PYTHONUNBUFFERED=1 MOCHI_HOST=0.0.0.0 MOCHI_DATA_DIR=/data
# Ollama on the machine that runs the container.
ENV MOCHI_OLLAMA_HOST=http://host.docker.internal:11434
VOLUME /data
WORKDIR /data
EXPOSE 8000
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=3s --start-period=10s CMD ["python", "-c", \
    "import os, urllib.request as r; r.urlopen(f'http://127.0.0.1:{os.environ.get(\"MOCHI_PORT\", 8000)}/api/v1/health', timeout=2)"]
CMD ["mochi-server"]
