# The service in a container: kernels compiled at build time, an unprivileged user, nothing written but /data.
#   docker build -t banister .
#   docker run --read-only -v shop:/data -v ./tokens:/run/secrets/tokens:ro -p 8080:8080 banister --alpha 0.1
FROM python:3.11-slim AS build
WORKDIR /src
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY src src
RUN python3 -m venv /opt/banister
RUN /opt/banister/bin/python -m pip install --no-cache-dir -c constraints.txt '.[serve,logs,postgres]'
RUN /opt/banister/bin/banister warm-up /opt/banister/kernels

FROM python:3.11-slim
RUN useradd --uid 10001 --no-create-home banister && install -d -o banister /data
COPY --from=build /opt/banister /opt/banister
ENV NUMBA_CACHE_DIR=/opt/banister/kernels
ENV BANISTER_SERVE_STORE=/data/shop.banister
ENV BANISTER_SERVE_HOST=0.0.0.0
ENV BANISTER_SERVE_TOKENS_FILE=/run/secrets/tokens
USER banister
VOLUME /data
EXPOSE 8080
HEALTHCHECK CMD ["/opt/banister/bin/python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8080/readyz')"]
ENTRYPOINT ["/opt/banister/bin/banister", "serve"]
