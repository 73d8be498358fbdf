"""Configures Django, all from the settings that :mod:`mochi_project.configuration.loading` reads.

Importing this module opens no file and no database: the secret key is read (or made) when it is
first used, so that commands that need neither run in a read-only directory.
"""

from typing import Any

from mochi_project.configuration.constants import CORE, WINGS
from mochi_project.configuration.loading import load_settings
from mochi_project.configuration.logs import logging_config
from mochi_project.configuration.secrets import SECRET_KEY_FILE, LazySecret
from mochi_project.configuration.setting_errors import ConfigurationError
from mochi_project.configuration.test_mode import with_fresh_data_dir
from mochi_project.trust.decision import pass_on

try:
    MOCHI = with_fresh_data_dir(load_settings())
except ConfigurationError as error:
    # A typo in the environment is no crash: name the variable, without a traceback.
    raise SystemExit(f"mochi-server: {error}") from None
pass_on(MOCHI.trust.decided)  # to web workers, the background worker and the reloader

SECRET_KEY = (
    MOCHI.secret_key.get_secret_value()
    if MOCHI.secret_key
    else LazySecret(MOCHI.resolved_private_dir / SECRET_KEY_FILE)
)

DEBUG = False
# The guard (mochi_project/guard/guard.py) has checked the Host header before Django sees a request:
# it also knows about IP literals, which this list can't express.
ALLOWED_HOSTS = ["*"]

INSTALLED_APPS = [
    "mochi_project",  # before all others: its management commands replace theirs
    *CORE,
    *(wing for wing in WINGS if wing not in MOCHI.apps_off),
    "mochi_project.background.django_app.TaskQueueConfig",
]
# Async functions only: Django runs the hooks of other middleware in a thread, for every request.
MIDDLEWARE = ["mochi_project.errors.middleware.envelope_middleware"]
ROOT_URLCONF = "mochi_project.urls"
ASGI_APPLICATION = "mochi_project.asgi.application"
APPEND_SLASH = False
# The guard cuts bodies off; Django's own limit must not be lower than the configured one.
DATA_UPLOAD_MAX_MEMORY_SIZE = MOCHI.largest_body_bytes
FILE_UPLOAD_MAX_MEMORY_SIZE = MOCHI.largest_body_bytes  # nor may a body go to a temporary file

# What `check --deploy` would have a site of cookies and pages do. There are none here, and the
# guard does what is left: headers, Host, Origin.
SILENCED_SYSTEM_CHECKS = [
    "security.W001",  # SecurityMiddleware
    "security.W002",  # XFrameOptionsMiddleware
    "security.W003",  # CsrfViewMiddleware
    "security.W009",  # the key has 43 characters for its 256 random bits, Django wants 50
]

USE_TZ = True
# With a name here Django overwrites TZ for this process and all that it starts: tools would tell
# the wrong time, and naive times of old sessions, which are local, would be read as UTC.
TIME_ZONE = None
USE_I18N = False

# The task queue's database, opened where tasks are queued or run. Sessions never touch it.
_QUEUE_DATABASE: dict[str, Any] = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": MOCHI.resolved_private_dir / "queue.sqlite3",
        "CONN_MAX_AGE": None,  # the worker asks once a second
        "OPTIONS": {
            "timeout": 10,
            "transaction_mode": "IMMEDIATE",
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL",
        },
    }
}
# A queue in Redis has none: results are kept in memory for a minute, and nobody reads them.
DATABASES: dict[str, Any] = {} if MOCHI.journal_url else _QUEUE_DATABASE
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

Q_CLUSTER: dict[str, Any] = {
    "name": "mochi",
    "time_zone": "UTC",
    "workers": 1,
    "poll": 1,
    "guard_cycle": 1,  # must divide the timeout, and its 3 s on top: it is counted down to 0
    "timeout": 600,
    "retry": 660,  # longer than the timeout, or a task would run twice
    "ack_failures": True,
    "catch_up": False,
    "scheduler": False,
    "save_limit": -1,  # nobody reads what became of a task, and rows for it cost half of it
}
if MOCHI.journal_url:
    Q_CLUSTER |= {
        "broker_class": "cluster_app.redis.broker.RedisBroker",
        "redis": MOCHI.journal_url,
        "cached": 60,
        "max_attempts": 1,
    }
else:
    Q_CLUSTER |= {"orm": "default", "max_attempts": 3}

LOGGING = logging_config(MOCHI)
