# What developers run. `just` lists it.

_default:
    @just --list

# Everything that CI checks: the tests run linter, formatter, types and import contracts too
check: test

# The tests; arguments go to pytest
test *arguments:
    uv run pytest {{ arguments }}

# The unit tests of core alone: sessions, prompts, models, tools, chat, agents, and the Django shell
test-core *arguments:
    uv run pytest tests/unit/sessions_app tests/unit/prompts_app tests/unit/models_app tests/unit/tools_app \
        tests/unit/chat tests/unit/agents_app tests/unit/mochi_project {{ arguments }}

# The unit tests of wings alone: the apps that can be left out
test-wings *arguments:
    uv run pytest tests/unit/search_app tests/unit/transfer_app tests/unit/dialects_app tests/unit/usage_app \
        tests/unit/cluster_app tests/unit/scripted_app tests/unit/terminal_app {{ arguments }}

# What repeats with chance, for long: 200 rounds of random faults, 60 of kills, costly bodies, a thousand examples
soak rounds="23":
    MOCHI_E2E_FAULT_ROUNDS={{ rounds }} MOCHI_E2E_CRASH_ROUNDS=60 MOCHI_E2E_BODIES=all \
        uv run pytest --timeout 7200 -m soak -n 2 --dist worksteal tests/functional/durability tests/functional/memory
    uv run pytest --timeout 7200 -m hypothesis --hypothesis-profile soak

# Starts and stops of servers, commands and workers, and what works for seconds
slow *arguments:
    uv run pytest -m slow -n 5 {{ arguments }} tests

# With programs of others: Chromium, npm packages, a JDK, Go, nginx, Prometheus, the build
interop *arguments:
    uv run pytest -m interop {{ arguments }}

# The tests with the newest Django
test-django6 version *arguments:
    uv run --python 3.12 --isolated --with "django=={{ version }}.*" pytest {{ arguments }}

# Several nodes on one machine, a Redis and an object store, and what may fail of them
cluster *arguments:
    uv run pytest -m cluster {{ arguments }}

# What depends on frameworks and HTTP clients, with the newest versions that the ranges allow
test-newest *arguments:
    uv venv --quiet --clear --python ">=3.12" .venv/newest
    uv pip install --quiet --no-config --python .venv/newest --editable . --group dev
    .venv/newest/bin/python -m pytest -m conformance {{ arguments }}

# The server and its stores with the oldest versions that the ranges allow
test-lowest *arguments:
    uv venv --quiet --clear --python 3.11 .venv/lowest
    uv pip install --quiet --no-config --python .venv/lowest --resolution lowest-direct --editable ".[cluster,metrics,otel]"
    uv pip install --quiet --no-config --python .venv/lowest --group dev
    .venv/lowest/bin/python -m pytest -m "conformance or not (slow or interop or soak or cluster)" tests/contract tests/unit tests/functional/starting {{ arguments }}

# The clients of OpenAI's protocol that tests run: Node.js, npm packages, Python packages
install-clients:
    tests/functional/openai_clients/install
    tests/functional/generated_clients/install

# Linter and formatter, mending what they can
lint:
    uv run ruff check --fix .
    uv run ruff format .

# Types
types:
    uv run mypy

# Our server beside the yardstick: prints ratios and writes docs/performance.md, asserts nothing
bench *arguments:
    uv run --group bench python tests/benchmarks/run.py --write {{ arguments }}

# Pin the newest versions that the ranges allow in pyproject.toml
constraints:
    uv run --no-project python scripts/constraints.py

# What is written from code: .env.example, tables in docs/
docs:
    uv run python scripts/docs.py

# Copy the libraries of the chat page from npm, in the versions that the script pins
vendor:
    scripts/vendor

# Take the pictures of the chat page that README.md shows
screenshots:
    MOCHI_E2E_IMAGES=docs/images uv run pytest -n 0 -m interop -k "approval and not phone" \
        tests/functional/chat_page/test_screenshots.py

# The wheel and the source distribution
build:
    uv build

# Fails unless the tag is that of the project's version, and the changelog has it
check-tag tag:
    test v"$(uv version --short)" = {{ quote(tag) }}
    grep -q "^## \[$(uv version --short)\] - " CHANGELOG.md

# What a release has beside dist/, in release/: what it consists of, Homebrew's formula, and the changelog's introduction
release-files:
    mkdir -p release
    uv export --quiet --preview-features sbom-export --format cyclonedx1.5 --no-default-groups --all-extras \
        --output-file release/mochi-server.cdx.json
    sed "s/@VERSION@/$(uv version --short)/g; s/@SHA256@/$(sha256sum dist/mochi_server-*.tar.gz | cut -c -64)/" \
        packaging/homebrew/mochi-server.rb >release/mochi-server.rb
    awk -v heading="## [$(uv version --short)]" '/^##/{on = index($0, heading) == 1; next} on' CHANGELOG.md >release/notes.md
