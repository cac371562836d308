# SPDX-License-Identifier: Apache-2.0
# An image with Python and the wheel, by the steps of docs/install.md: docker build -t lossgrid .
# This file was not built where it was written, which has no Docker; scripts/wheel was run there.
FROM debian:bookworm AS build
RUN apt-get update && apt-get install -y --no-install-recommends git
COPY . /src
WORKDIR /src
RUN git config --global --add safe.directory /src && scripts/setup wheel && scripts/wheel

FROM python:3.12-slim-bookworm
COPY --from=build /src/build/wheel/*.whl /tmp/
RUN pip install --no-cache-dir /tmp/*.whl && rm /tmp/*.whl && lossgrid run --suite smoke --quiet
ENTRYPOINT ["lossgrid"]
