# All three services in one image: docker build --target cpu --tag foreword:RELEASE .
#
#   BASE_IMAGE   an image with Python 3.11 or newer as python3, and its venv
#   TORCH_INDEX  a further package index to find PyTorch in, for instance the one of its CPU builds; without it pip takes
#                the default builds, which bring CUDA, several GB of it
#
# A pip configuration (a private index, its certificates) is lent to the build and stays out of the image:
# --secret id=pip,src=pip.conf

ARG BASE_IMAGE=python:3.11-slim-bookworm

FROM ${BASE_IMAGE} AS builder
ARG TORCH_INDEX=
ENV PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /src
COPY constraints.txt ./
RUN --mount=type=secret,id=pip,target=/etc/pip.conf \
    --mount=type=cache,target=/root/.cache/pip \
    python3 -m venv /opt/foreword && \
    /opt/foreword/bin/pip install --constraint constraints.txt --upgrade pip && \
    /opt/foreword/bin/pip install --constraint constraints.txt \
        ${TORCH_INDEX:+--extra-index-url "$TORCH_INDEX"} torch
# A change of the source leaves the layer above, the large one, as it is.
COPY . .
# The wheel's build writes the stubs of protos/.
RUN --mount=type=secret,id=pip,target=/etc/pip.conf \
    --mount=type=cache,target=/root/.cache/pip \
    /opt/foreword/bin/pip install --constraint constraints.txt --build-constraint constraints.txt \
        ${TORCH_INDEX:+--extra-index-url "$TORCH_INDEX"} '.[serve,http,models]'

FROM ${BASE_IMAGE} AS cpu
# A name for the id, because libraries look it up; nothing of the image is theirs but the cache.
RUN useradd --uid 10001 --user-group --no-create-home --home-dir /var/cache/foreword \
        --shell /usr/sbin/nologin foreword && \
    install --directory --owner=10001 --group=10001 /var/cache/foreword
COPY --from=builder /opt/foreword /opt/foreword
# Models, the hub's too, go where a volume may be mounted; all else may be read-only.
ENV PATH=/opt/foreword/bin:$PATH \
    XDG_CACHE_HOME=/var/cache/foreword
WORKDIR /var/cache/foreword
USER 10001:10001
ENTRYPOINT ["foreword"]
CMD ["--help"]
