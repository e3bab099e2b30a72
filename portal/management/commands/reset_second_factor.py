"""`manage.py reset_second_factor USERNAME`: for the account that nobody else can help, as break-glass is."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from apps.accounts.models import User
from apps.accounts.second_factor import factors
from apps.accounts.specs import system_actor
from apps.errors import DomainError

OPERATOR = system_actor("operator")
"""Who acts: whoever may run the installation's programs; `system:operator` in the audit record."""


class Command(BaseCommand):
    """Ends with status 1 where there is no such person."""

    help = "Take away somebody's second factor and recovery codes, and end their sessions."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("username")

    def handle(self, *_args: Any, **options: Any) -> None:
        user = User.objects.filter(username=options["username"], is_service=False).first()
        if user is None:
            raise CommandError(f"There is no person {options['username']}.")
        try:
            had_one = factors.reset(actor=OPERATOR, user=user, now=timezone.now())
        except DomainError as error:
            raise CommandError(f"{error.detail} {error.hint}") from error
        if not had_one:
            self.stdout.write(f"{user.username} has no second factor. Nothing was changed.")
            return
        self.stdout.write(
            f"{user.username} signs in with the password alone now. Every session of theirs ended."
        )
