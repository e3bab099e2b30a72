"""Django's settings, composed from `portal.config`. Nothing here is decided twice."""

import logging
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from csp.constants import NONCE, NONE, SELF

from portal import config
from portal.operate import logs
from portal.packages import terminal_files

CONFIG = config.load()
BASE_DIR = config.ROOT

SECRET_KEY = CONFIG.secret_key
SECRET_KEY_FALLBACKS = CONFIG.former_keys
DEBUG = False
ALLOWED_HOSTS = [
    *(host for host in CONFIG.hosts.split(",") if host),
    *((urlsplit(CONFIG.public_url).hostname or "",) if CONFIG.public_url else ()),
    # Health checks come from beside the process.
    *config.LOOPBACK,
    "[::1]",
]
ROOT_URLCONF = "portal.urls"
ASGI_APPLICATION = "portal.asgi.application"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
AUTH_USER_MODEL = "accounts.User"
LOGIN_URL = "/sign-in/"
LOGIN_REDIRECT_URL = "/"
APPEND_SLASH = False
USE_TZ = True
TIME_ZONE = "UTC"
LANGUAGE_CODE = "en"
USE_I18N = False

INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "csp",
    "django_htmx",
    "rest_framework",
    "drf_spectacular",
    "apps.web",
    "apps.audit",
    "apps.notices",
    "apps.accounts",
    "apps.cluster",
    "apps.tenants",
    "apps.quotas",
    "apps.workloads",
    "apps.metering",
    "portal",
    "portal.api",
    "portal.pages",
]

MIDDLEWARE = [
    "portal.operate.tracing.middleware.TraceMiddleware",
    "portal.operate.measuring.MeasureMiddleware",
    "apps.web.requests.perimeter.PerimeterMiddleware",
    "portal.middleware.RequestIdMiddleware",
    "portal.middleware.CompressionMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "csp.middleware.CSPMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    # Below what every answer carries: it answers static files itself.
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    # Outside of refusals: their page too is shown to whoever looks, with the banner.
    "portal.viewing.ViewingMiddleware",
    "portal.middleware.ProblemMiddleware",
]

_FOLDERS = ["django.template.loaders.filesystem.Loader", "django.template.loaders.app_directories.Loader"]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "OPTIONS": {
            # As the app of template_partials would set it up, which reads Django's admin in every process.
            "loaders": [
                ("template_partials.loader.Loader", [("django.template.loaders.cached.Loader", _FOLDERS)])
            ],
            "libraries": {"partials": "template_partials.templatetags.partials"},
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "portal.context.shell",
            ],
        },
    }
]


def _database() -> dict[str, Any]:
    if not CONFIG.database_url:
        return {
            "ENGINE": "portal.sqlite",
            "NAME": CONFIG.home / "allotment.sqlite3",
            "CONN_MAX_AGE": 60,
            # As Django itself does; pytest-django looks for the name of Django's own backend.
            "TEST": {"NAME": ":memory:"},
            # IMMEDIATE: a transaction that will write says so at once, so two writers wait, not fail.
            "OPTIONS": {
                "transaction_mode": "IMMEDIATE",
                "timeout": 20,
                "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;",
            },
        }
    parts = urlsplit(CONFIG.database_url)
    # After a restart of the database a connection is tried again at once, not ever more rarely.
    pool = {"min_size": 2, "max_size": CONFIG.database_pool, "timeout": 3, "reconnect_timeout": 2}
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": parts.path.lstrip("/"),
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": parts.hostname or "",
        "PORT": str(parts.port or ""),
        "CONN_MAX_AGE": 0 if CONFIG.database_pool else 60,
        "CONN_HEALTH_CHECKS": True,
        "OPTIONS": {"pool": pool} if CONFIG.database_pool else {},
    }


DATABASES = {"default": _database()}

CACHES = {
    "default": {
        "BACKEND": "apps.web.stores.pool.Cache",
        "LOCATION": CONFIG.redis_url,
        "OPTIONS": {
            "pool_class": "apps.web.stores.pool.SharedPool",
            "socket_connect_timeout": 0.4,
            "socket_timeout": 0.4,
        },
    }
}
SESSION_ENGINE = "django.contrib.sessions.backends.db"

STATIC_URL = "/static/"
STATICFILES_DIRS: list[Path | tuple[str, Path]] = [BASE_DIR / "static"]
if terminal_files.are_here():
    STATICFILES_DIRS.append(("xterm", terminal_files.FOLDER))
STATIC_ROOT = CONFIG.home / "static-root"
# The demo collects its files as production does; whoever develops sees a change at the next reload.
COLLECTED = CONFIG.demo or CONFIG.mode == "production"
WHITENOISE_USE_FINDERS = not COLLECTED
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {
        "BACKEND": "whitenoise.storage.CompressedManifestStaticFilesStorage"
        if COLLECTED
        else "django.contrib.staticfiles.storage.StaticFilesStorage"
    },
}

PASSWORD_HASHERS = [
    "django.contrib.auth.hashers.Argon2PasswordHasher",
    "django.contrib.auth.hashers.PBKDF2PasswordHasher",
]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 12}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]

# The cookie names follow the scheme: browsers refuse `__Host-` without https.
_PREFIX = "__Host-" if CONFIG.is_https else ""
SESSION_COOKIE_NAME = f"{_PREFIX}allotment_session"
CSRF_COOKIE_NAME = f"{_PREFIX}allotment_csrf"
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = CONFIG.is_https
SESSION_COOKIE_HTTPONLY = CSRF_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = CSRF_COOKIE_SAMESITE = "Lax"
SESSION_COOKIE_AGE = 8 * 3600
CSRF_TRUSTED_ORIGINS = [CONFIG.public_url.rstrip("/")] if CONFIG.public_url else []
CSRF_FAILURE_VIEW = "portal.handlers.csrf_failure"
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
SECURE_SSL_REDIRECT = False
# Never what was sent: `apps.web.requests.perimeter` writes it from the public address.
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
SECURE_HSTS_SECONDS = 31_536_000 if CONFIG.is_https else 0
X_FRAME_OPTIONS = "DENY"
DATA_UPLOAD_MAX_MEMORY_SIZE = 1024 * 1024

CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [SELF],
        "script-src": [SELF, NONCE],
        "style-src": [SELF],
        "img-src": [SELF, "data:"],
        "object-src": [NONE],
        "base-uri": [NONE],
        "frame-ancestors": [NONE],
        # Where "Open" leads: a form's redirects count.
        "form-action": [SELF, *([CONFIG.apps.everywhere] if CONFIG.apps else [])],
        "connect-src": [SELF],
    }
}

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "portal.api.base.authentication.TokenAuthentication",
        "portal.api.base.authentication.PortalSessionAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.IsAuthenticated"],
    "DEFAULT_PARSER_CLASSES": ["portal.api.base.parsing.StrictJSONParser"],
    "DEFAULT_RENDERER_CLASSES": ["portal.api.base.rendering.FastJSONRenderer"],
    "EXCEPTION_HANDLER": "apps.web.problems.answers.exception_handler",
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
    "UNAUTHENTICATED_USER": None,
}
SPECTACULAR_SETTINGS = {
    "TITLE": "Allotment REST API",
    "DESCRIPTION": "Self-service GPUs: tenants, offers, quotas and workloads. Errors are problem+json.",
    "VERSION": "1.0.0",
    "OAS_VERSION": "3.1.1",
    "SERVE_INCLUDE_SCHEMA": False,
    "COMPONENT_SPLIT_REQUEST": True,
    "SCHEMA_PATH_PREFIX": "/api/v1",
    "SERVE_AUTHENTICATION": None,
    # Enums stay where they are used: names made for them would change as others come.
    "POSTPROCESSING_HOOKS": [
        "apps.web.shapes.patching.loosen",
        "portal.api.declared.links.link",
        "apps.web.examples.show",
    ],
}

# Celery carries hints only (docs/decisions): late acks and a swift restore, as measured with a killed worker.
CELERY_BROKER_URL = CONFIG.redis_url
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_ACKS_LATE = True
CELERY_TASK_REJECT_ON_WORKER_LOST = True
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_WORKER_SOFT_SHUTDOWN_TIMEOUT = 5
CELERY_TASK_TIME_LIMIT = 120
CELERY_TASK_SOFT_TIME_LIMIT = 90
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
# However long Redis is away: the database keeps what is due, and who gave up would have to be started.
CELERY_BROKER_CONNECTION_MAX_RETRIES = None
# Nor does one end itself when Redis takes no writes, because its disk is full.
CELERY_BROKER_CHANNEL_ERROR_RETRY = True
CELERY_WORKER_CONSUMER = "portal.run.consumer:SoonConsumer"
CELERY_BROKER_TRANSPORT_OPTIONS = {
    "visibility_timeout": 150,
    "unacked_restore_interval": 5,
    "unacked_restore_throttle": 1,
    # Two queues in one: what people ask for, then what the cluster tells (cluster.reconciling.services.wake).
    "priority_steps": [0, 6],
    "queue_order_strategy": "priority",
    # How long a worker waits for its next task before it asks again; kombu's own second costs more at rest. A
    # stop takes as long.
    "polling_interval": 3,
    "socket_connect_timeout": 0.5,
    "socket_timeout": 30,
}
CELERY_BEAT_SCHEDULER = "portal.clock:LedScheduler"
# What the clock starts; each finds its work in the database, so running twice or late changes nothing.
CELERY_BEAT_SCHEDULE = {
    "clock.round": {"task": "clock.round", "schedule": CONFIG.sweep_seconds},
    "quotas.clock": {"task": "quotas.clock", "schedule": 60},
    "workloads.foresee": {"task": "workloads.foresee", "schedule": 15},
    "workloads.tell_waits": {"task": "workloads.tell_waits", "schedule": 30},
    "workloads.ask_ides": {"task": "workloads.ask_ides", "schedule": 60, "options": {"expires": 60}},
    "workloads.prune_logs": {"task": "workloads.prune_logs", "schedule": 3600},
    "metering.collect": {"task": "metering.collect", "schedule": 15},
    "metering.price_untold": {"task": "metering.price_untold", "schedule": 300},
    "metering.prune_ledger": {"task": "metering.prune_ledger", "schedule": 3600},
    "metering.read_telemetry": {
        "task": "metering.read_telemetry",
        "schedule": CONFIG.telemetry_step_seconds,
        "options": {"expires": CONFIG.telemetry_step_seconds},
    },
    "metering.watch_telemetry": {"task": "metering.watch_telemetry", "schedule": 120},
    "metering.keep_samples": {"task": "metering.keep_samples", "schedule": 3600},
    # A third of a step later: what it judges by is read in the same moment as the clock starts it.
    "metering.judge": {"task": "metering.judge", "schedule": 30, "options": {"countdown": 10}},
    # And what was judged is rolled up next, so that a finding has its money at once.
    "metering.roll": {"task": "metering.roll", "schedule": 30, "options": {"countdown": 15}},
    "cluster.prune_mirror": {"task": "cluster.prune_mirror", "schedule": 3600},
    "audit.check": {"task": "audit.check", "schedule": 600},
    "metering.check_ledger": {"task": "metering.check_ledger", "schedule": 600},
    "accounts.prune_sessions": {"task": "accounts.prune_sessions", "schedule": 3600},
    "accounts.end_views": {"task": "accounts.end_views", "schedule": 60},
    "web.prune_idempotency_keys": {"task": "web.prune_idempotency_keys", "schedule": 3600},
}

LOGGING = logs.configuration(CONFIG)
# What Python warns of is an event too: by itself it would write lines of another form between them.
logging.captureWarnings(CONFIG.log_format == "json")
