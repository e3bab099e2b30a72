"""Django's SQLite backend with one thing of our own; `DATABASES` names it."""
