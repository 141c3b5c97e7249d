# Handrail with every program its tools need. `docker build -t handrail .`
FROM python:3.13-slim-bookworm

# The list that `handrail doctor` checks; fd is called fdfind in Debian.
RUN apt-get update \
 && apt-get install --yes --no-install-recommends bash coreutils sed ripgrep fd-find perl bubblewrap ca-certificates git \
 && rm -rf /var/lib/apt/lists/* \
 && ln -s /usr/bin/fdfind /usr/local/bin/fd

COPY pyproject.toml constraints.txt README.md LICENSE* /opt/handrail/
COPY src /opt/handrail/src
# The versions that the tests ran with, also of what builds the package.
ENV PIP_CONSTRAINT=/opt/handrail/constraints.txt \
    PIP_BUILD_CONSTRAINT=/opt/handrail/constraints.txt
RUN pip install --no-cache-dir '/opt/handrail[agent,fast,lint,mcp,search,serve]'

RUN useradd --create-home --uid 10001 agent \
 && mkdir -p /workspace /state \
 && chown agent:agent /workspace /state
USER agent
WORKDIR /workspace

# Roots are given when the container starts and hold until it is started anew.
ENV AUTONOUS_TOOL_ALLOWED_ROOTS=/workspace,/state \
    XDG_STATE_HOME=/state

# The self-check first: nothing is offered where a program is missing.
ENTRYPOINT ["/bin/bash", "-c", "handrail doctor >&2 && exec handrail \"$@\"", "handrail"]
CMD ["tools", "list"]
