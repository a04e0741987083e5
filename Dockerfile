# docker build -t polylog .
# docker run -p 127.0.0.1:9092:9092 -v data:/data -e BROKER_POLYLOG_INSECURE=true \
#     -e BROKER_ADVERTISED_LISTENERS=localhost:9092 polylog
#
# The first stage builds a wheel, the second has nothing but Python and what the wheel needs. The root
# may be read-only (--read-only): only /data is written. `docker stop` sends SIGTERM, after which the
# broker has stopped cleanly.
ARG PYTHON=3.13

FROM python:${PYTHON}-slim AS build
RUN apt-get update \
    && apt-get install --yes --no-install-recommends gcc libc6-dev \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /source
COPY . .
ARG SOURCE_DATE_EPOCH=0
RUN python -m venv /opt/polylog \
    && SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH} pip wheel --no-cache-dir --no-deps --wheel-dir /wheels . \
    && /opt/polylog/bin/pip install --no-cache-dir --no-compile "$(ls /wheels/*.whl)[tls,oauth]" \
    && /opt/polylog/bin/python -m compileall -q -j 0 /opt/polylog/lib \
    && /opt/polylog/bin/pip uninstall --yes pip

FROM python:${PYTHON}-slim
LABEL org.opencontainers.image.title="Polylog" \
      org.opencontainers.image.description="A durable log for Kafka clients" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /opt/polylog /opt/polylog
# A number: Kubernetes' runAsNonRoot cannot check a name.
RUN install --directory --owner=10001 --group=10001 --mode=0700 /data
ENV PATH=/opt/polylog/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
USER 10001:10001
VOLUME ["/data"]
EXPOSE 9092
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 \
    CMD ["python", "-c", "import http.client; c = http.client.HTTPConnection('127.0.0.1', 9092, timeout=4); c.request('GET', '/health/ready'); raise SystemExit(c.getresponse().status != 200)"]
ENTRYPOINT ["broker"]
# Without a login a broker listens on the network only if it is told to (BROKER_POLYLOG_INSECURE=true).
CMD ["start", "--data-dir", "/data", "--listen", "0.0.0.0:9092"]
